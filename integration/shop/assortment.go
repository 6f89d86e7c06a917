package shop

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// The products and customers of the shop.
var (
	products = []struct {
		id, title string
		cents     int
	}{
		{"P-100", "Espresso cup, set of 4", 2490},
		{"P-101", "French press 1 l", 3995},
		{"P-102", "House blend 1 kg", 1890},
		{"P-103", "Hand grinder", 8900},
		{"P-104", "Paper filters, 100 pieces", 450},
		{"P-105", "Kettle with thermometer", 6450},
		{"P-106", "Scale 2 kg / 0.1 g", 3290},
	}
	firstNames = []string{"Aiko", "Björn", "Chiara", "Diego", "Elif", "Femke", "Grace", "Haruki", "Inês", "Jonas"}
	lastNames  = []string{"Tanaka", "Lindqvist", "Rossi", "García", "Yılmaz", "de Vries", "Okafor", "Satō", "Carvalho", "Müller"}
	countries  = []string{"JP", "SE", "IT", "ES", "TR", "NL", "NG", "JP", "PT", "DE"}
)

const people = 100

type somebody struct{ name, country string }

// person returns the n-th customer.
func person(n int) somebody {
	return somebody{
		name:    firstNames[n/len(lastNames)%len(firstNames)] + " " + lastNames[n%len(lastNames)],
		country: countries[n%len(countries)],
	}
}

// pick puts one to three different products into a basket.
func pick(rng *rand.Rand) []item {
	chosen := rng.Perm(len(products))[:1+rng.IntN(3)]
	items := make([]item, 0, len(chosen))
	for _, i := range chosen {
		p := products[i]
		items = append(items, item{Product: p.id, Title: p.title, Quantity: 1 + rng.IntN(3), UnitPrice: money(p.cents)})
	}
	return items
}

// total returns the sum of the items' prices.
func total(items []item) json.Number {
	sum := 0
	for _, it := range items {
		var euros, cents int
		// The price has this format, because the function money has written it.
		_, _ = fmt.Sscanf(it.UnitPrice.String(), "%d.%d", &euros, &cents)
		sum += it.Quantity * (euros*100 + cents)
	}
	return money(sum)
}

const newProductPrefix = "P-NEW-"

func newProduct(i int) string { return fmt.Sprintf("%s%d", newProductPrefix, i) }

func isNew(product string) bool { return strings.HasPrefix(product, newProductPrefix) }
