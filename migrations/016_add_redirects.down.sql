DROP TABLE dlq.redirects;
DROP SEQUENCE dlq.redirect_versions;
