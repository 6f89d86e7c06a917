package shop

import (
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// The types of the JSON values in the topics of orders, payments and users.
type (
	orderBody struct {
		ID       string      `json:"order_id"`
		Customer customer    `json:"customer"`
		Items    []item      `json:"items"`
		Amount   json.Number `json:"amount"`
		Currency string      `json:"currency"`
		PlacedAt string      `json:"placed_at"`
	}
	paymentBody struct {
		ID          string      `json:"payment_id"`
		OrderID     string      `json:"order_id"`
		Provider    string      `json:"provider"`
		Amount      json.Number `json:"amount"`
		Currency    string      `json:"currency"`
		RequestedAt string      `json:"requested_at"`
	}
	userBody struct {
		ID           string `json:"user_id"`
		Name         string `json:"name"`
		Email        string `json:"email"`
		Country      string `json:"country"`
		RegisteredAt string `json:"registered_at"`
	}
	customer struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Country string `json:"country"`
	}
	item struct {
		Product   string      `json:"product"`
		Title     string      `json:"title"`
		Quantity  int         `json:"quantity"`
		UnitPrice json.Number `json:"unit_price"`
	}
)

// defect is a reason why a body is unreadable.
type defect int

const (
	sound defect = iota
	tombstone
	notUTF8
	truncated
	amountIsText
)

// read decodes the JSON value of a record into body, a pointer to one of the types above. It returns the defect of the
// value; there is one defect for each error text that the frameworks produce.
func read(value []byte, body any) defect {
	switch {
	case value == nil:
		return tombstone
	case !utf8.Valid(value):
		return notUTF8
	}
	err := json.Unmarshal(value, body)
	var syntax *json.SyntaxError
	switch {
	case err == nil && amountIsNumber(value):
		return sound
	case errors.As(err, &syntax):
		return truncated
	default:
		return amountIsText
	}
}

// amountIsNumber checks the JSON type of the amount, because json.Number also accepts a number in
// quotes.
func amountIsNumber(value []byte) bool {
	var body struct {
		Amount json.RawMessage `json:"amount"`
	}
	if err := json.Unmarshal(value, &body); err != nil {
		return false
	}
	return len(body.Amount) == 0 || body.Amount[0] != '"'
}
