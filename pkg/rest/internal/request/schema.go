package request

import "github.com/dlq-manager/dlq-manager/pkg/entity"

// SchemaChoices is the reason in the error for a field that contains no valid entity.SchemaChoice.
const SchemaChoices = "must be same, the schema of the record, or latest, the latest version of the target topic's subject"

// SchemaChoice reads the schema with which an edit is encoded; entity.SameSchema for a field that is not given.
func SchemaChoice(field Option[string]) (choice entity.SchemaChoice, ok bool) {
	switch choice = entity.SchemaChoice(field.Value); {
	case !field.Given:
		return "", true
	case choice == entity.SameSchema:
		return "", true
	}
	return choice, choice == entity.LatestSchema
}
