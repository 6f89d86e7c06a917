package messages

const ColumnsCookie = columnsCookie
