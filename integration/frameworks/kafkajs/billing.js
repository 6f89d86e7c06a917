import { Kafka, logLevel } from "kafkajs";

const { KAFKA = "localhost:9092", ORDERS = "web-orders", CURRENCIES = "EUR,USD" } = process.env;
const groupId = `${ORDERS}-billing`;
const currencies = CURRENCIES.split(",");

class UnknownCurrency extends Error {
  name = "UnknownCurrency";
}

function book(record) {
  const { currency } = JSON.parse(record.value);
  if (!currencies.includes(currency)) throw new UnknownCurrency(`unknown currency ${currency}`);
  const id = record.headers["dlq-message-id"]; // only a replay has this header
  console.log(`booked order ${record.key}${id ? `, a replay of message ${id}` : ""}`);
}

// The dead letter has the key, value and headers of the record, and headers that say where and why it failed.
function deadLetter(topic, partition, { key, value, headers, offset, timestamp }, error) {
  return {
    key,
    value,
    headers: {
      ...headers,
      "x-original-topic": topic,
      "x-original-partition": String(partition),
      "x-original-offset": offset,
      "x-original-timestamp": timestamp,
      "x-consumer-group": groupId,
      "x-error-type": error.name,
      "x-error-message": error.message,
      "x-stack-trace": error.stack,
    },
  };
}

const kafka = new Kafka({ brokers: [KAFKA], logLevel: logLevel.ERROR });
const producer = kafka.producer();
const consumer = kafka.consumer({ groupId });
await producer.connect();
await consumer.connect();
await consumer.subscribe({ topic: ORDERS, fromBeginning: true });
await consumer.run({
  // kafkajs commits the offset only after this function has returned.
  eachMessage: async ({ topic, partition, message }) => {
    try {
      book(message);
    } catch (error) {
      await producer.send({ topic: `${ORDERS}.dlq.v1`, messages: [deadLetter(topic, partition, message, error)] });
    }
  },
});
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await consumer.disconnect();
    await producer.disconnect();
  });
}
