package billing;

import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.json.JsonParserFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.util.backoff.FixedBackOff;

@SpringBootApplication(proxyBeanMethods = false)
public class Billing {
    @Value("${currencies}")
    private Set<String> currencies;

    public static void main(String[] args) {
        SpringApplication.run(Billing.class, args);
    }

    // After two more tries the record goes to the dead-letter topic, and the listener continues.
    @Bean
    DefaultErrorHandler deadLetters(KafkaTemplate<?, ?> template) {
        var recoverer = new DeadLetterPublishingRecoverer(template,
            (record, failure) -> new TopicPartition(record.topic() + ".dlq.v1", -1)); // -1: the producer chooses
        return new DefaultErrorHandler(recoverer, new FixedBackOff(200, 2));
    }

    @KafkaListener(topics = "${orders}")
    void book(ConsumerRecord<String, String> order, @Header(name = "dlq-message-id", required = false) String replayed) {
        var currency = (String) JsonParserFactory.getJsonParser().parseMap(order.value()).get("currency");
        if (!currencies.contains(currency)) {
            throw new UnknownCurrencyException(currency);
        }
        System.out.println("booked order " + order.key() + (replayed == null ? "" : ", a replay of message " + replayed));
    }

    static class UnknownCurrencyException extends RuntimeException {
        UnknownCurrencyException(String currency) {
            super("unknown currency " + currency);
        }
    }
}
