import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics as a member of a share group. It prints each delivery as a line of JSON, and reads a line with its
 * acknowledgement: accept, reject or release. It leaves the group at the end of its input.
 * Arguments: the topics, separated by commas, and settings of the consumer as name=value.
 */
public final class ShareConsumer {
    private static final String END = "";
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // for the log
        Properties settings = new Properties();
        for (int i = 1; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        settings.put("share.acknowledgement.mode", "explicit");
        BlockingQueue<String> answers = new LinkedBlockingQueue<>();
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[0].split(",")));
            Thread input = new Thread(() -> read(answers, consumer));
            input.setDaemon(true);
            input.start();
            while (consume(consumer, answers)) {}
        } catch (WakeupException end) {
            // The input has ended.
        }
    }

    private static void read(BlockingQueue<String> answers, KafkaShareConsumer<?, ?> consumer) {
        try (var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                answers.add(line);
            }
        } catch (IOException e) {
            e.printStackTrace();
        }
        answers.add(END);
        consumer.wakeup();
    }

    private static boolean consume(KafkaShareConsumer<byte[], byte[]> consumer, BlockingQueue<String> answers)
            throws InterruptedException {
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
            OUT.println(json(record));
            String answer = answers.take();
            if (answer.equals(END)) {
                return false;
            }
            consumer.acknowledge(record, AcknowledgeType.valueOf(answer.toUpperCase()));
        }
        consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(e -> System.err.println(partition + ": " + e)));
        return true;
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder headers = new StringBuilder();
        for (Header header : record.headers()) {
            headers.append(headers.isEmpty() ? "" : ",").append(String.format("{\"key\":%s,\"value\":%s}",
                    base64(header.key().getBytes(StandardCharsets.UTF_8)), base64(header.value())));
        }
        return String.format("{\"topic\":\"%s\",\"partition\":%d,\"offset\":%d,\"count\":%d,\"key\":%s,\"value\":%s,\"headers\":[%s]}",
                record.topic(), record.partition(), record.offset(), record.deliveryCount().orElse((short) 0),
                base64(record.key()), base64(record.value()), headers);
    }

    private static String base64(byte[] bytes) {
        return bytes == null ? "null" : '"' + Base64.getEncoder().encodeToString(bytes) + '"';
    }
}
