package billing;

import io.vertx.core.json.JsonObject;
import jakarta.enterprise.context.ApplicationScoped;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.eclipse.microprofile.config.inject.ConfigProperty;
import org.eclipse.microprofile.reactive.messaging.Incoming;

@ApplicationScoped
public class Billing {
    @ConfigProperty(name = "currencies")
    Set<String> currencies;

    // An order for which this method throws an exception goes to the dead-letter topic.
    @Incoming("orders")
    void book(ConsumerRecord<String, String> order) {
        var currency = new JsonObject(order.value()).getString("currency");
        if (!currencies.contains(currency)) {
            throw new UnknownCurrencyException(currency);
        }
        var replayed = order.headers().lastHeader("dlq-message-id"); // only a replay has this header
        System.out.println("booked order " + order.key() + (replayed == null ? "" : ", a replay of message " + new String(replayed.value())));
    }

    static class UnknownCurrencyException extends RuntimeException {
        UnknownCurrencyException(String currency) {
            super("unknown currency " + currency);
        }
    }
}
