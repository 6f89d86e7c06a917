package billing;

import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

public class BillingSink extends SinkConnector {
    private Map<String, String> settings;

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("currencies", ConfigDef.Type.LIST, ConfigDef.Importance.HIGH, "currencies of orders that are booked");
    }

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return BillingTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return Collections.nCopies(maxTasks, settings);
    }

    @Override
    public void stop() {}

    @Override
    public String version() {
        return "1";
    }

    public static class BillingTask extends SinkTask {
        private List<String> currencies;

        @Override
        public void start(Map<String, String> settings) {
            currencies = List.of(settings.get("currencies").split(","));
        }

        // An exception that put throws ends the task. Only a record that put reports goes to the dead-letter topic.
        @Override
        public void put(Collection<SinkRecord> orders) {
            for (var order : orders) {
                try {
                    book(order);
                } catch (UnknownCurrencyException e) {
                    context.errantRecordReporter().report(order, e);
                }
            }
        }

        private void book(SinkRecord order) {
            var currency = (String) ((Map<?, ?>) order.value()).get("currency");
            if (!currencies.contains(currency)) {
                throw new UnknownCurrencyException(currency);
            }
            var replayed = order.headers().lastWithName("dlq-message-id"); // only a replay has this header
            System.out.println("booked order " + order.key() + (replayed == null ? "" : ", a replay of message " + replayed.value()));
        }

        @Override
        public void stop() {}

        @Override
        public String version() {
            return "1";
        }
    }

    static class UnknownCurrencyException extends RuntimeException {
        UnknownCurrencyException(String currency) {
            super("unknown currency " + currency);
        }
    }
}
