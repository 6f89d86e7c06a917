package billing;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.connect.json.JsonDeserializer;
import org.apache.kafka.connect.json.JsonSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;

public class Billing {
    private static final String ORDERS = setting("ORDERS", "web-orders");
    private static final Set<String> CURRENCIES = Set.of(setting("CURRENCIES", "EUR,USD").split(","));

    public static void main(String[] args) {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, ORDERS + "-billing"); // also the consumer group
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, setting("KAFKA", "localhost:9092"));
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        settings.put(StreamsConfig.ERRORS_DEAD_LETTER_QUEUE_TOPIC_NAME_CONFIG, ORDERS + ".dlq.v1");
        settings.put(StreamsConfig.PROCESSING_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueProcessingExceptionHandler.class);
        settings.put(StreamsConfig.DESERIALIZATION_EXCEPTION_HANDLER_CLASS_CONFIG, LogAndContinueExceptionHandler.class);

        var json = Serdes.serdeFrom(new JsonSerializer(), new JsonDeserializer());
        var builder = new StreamsBuilder();
        builder.stream(ORDERS, Consumed.with(Serdes.String(), json)).process(Booking::new);
        var streams = new KafkaStreams(builder.build(), settings);
        var leave = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(leave)));
        streams.start();
    }

    private static String setting(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    static class Booking implements Processor<String, JsonNode, Void, Void> {
        @Override
        public void process(Record<String, JsonNode> order) {
            var currency = order.value().get("currency").asText();
            if (!CURRENCIES.contains(currency)) {
                throw new UnknownCurrencyException(currency);
            }
            var replayed = order.headers().lastHeader("dlq-message-id"); // only a replay has this header
            System.out.println("booked order " + order.key() + (replayed == null ? "" : ", a replay of message " + new String(replayed.value())));
        }
    }

    static class UnknownCurrencyException extends RuntimeException {
        UnknownCurrencyException(String currency) {
            super("unknown currency " + currency);
        }
    }
}
