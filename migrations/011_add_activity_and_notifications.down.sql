DROP TABLE dlq.notification_spikes, dlq.notification_sinks, dlq.notifications, dlq.notification_state,
    dlq.group_minutes, dlq.activity;
