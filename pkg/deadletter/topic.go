package deadletter

// maxTopic is Kafka's limit for the length of a topic's name.
const maxTopic = 249

// ValidTopic reports whether Kafka would allow the name: 1 to 249 of A-Z a-z
// 0-9 . _ - and neither "." nor "..".
func ValidTopic(name string) bool {
	if name == "" || len(name) > maxTopic || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		if !topicByte(name[i]) {
			return false
		}
	}
	return true
}

func topicByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-'
}
