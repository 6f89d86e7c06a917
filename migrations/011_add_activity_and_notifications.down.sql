DROP TABLE dlq.notice_spikes, dlq.notice_sinks, dlq.notices, dlq.notice_state, dlq.activity;
