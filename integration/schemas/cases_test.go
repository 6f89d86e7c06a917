package schemas_test

import "github.com/dlq-manager/dlq-manager/integration/registry/official"

// example is a schema with a value. The test writes the value both as the key and as the value of records.
type example struct {
	name, format, schema string
	references           []official.Reference
	message              string // full name of the Protobuf message
	value                string // the value in the form that official.EncodeRequest describes
	node                 bool   // the official encoder for Node can encode this value too
	onlyNode             bool   // only the encoder for Node can write this value, and dlq-manager cannot decode it

	// branches lists the values of unions, by JSON pointers. dlq-manager shows such a value as {"branch": value}, but
	// the official decoder shows it without the branch. Outer unions come before inner ones.
	branches []branch

	edit     string // JSON object of changed members and their new values (for Protobuf, null removes a member), or a whole new value
	evolved  string // "": the schema has one version
	inLatest string // additional members of the edited value in the evolved schema
	reader   string // schema for the official decoder of edited values; "": the schema of the writer
	unknown  string // JSON members that the decoder adds, because only the schema in the field reader contains them
}

type branch struct{ pointer, name string }

var examples = []example{
	{
		name: "avro-text", format: official.Avro,
		schema: `"string"`, value: `"A-1 \u0000 \"é\" 😀"`, edit: `"B-2 😀"`,
	},
	{
		name: "avro-unions", format: official.Avro, schema: avroUnions,
		value: `{"none":null,"count":{"$tuple":["long",9223372036854775807]},"label":"x","either":"text",
			"paid":{"$tuple":["shop.Card",{"number":"4"}]},"free":{"$tuple":["shop.Gift",{"number":"7"}]},
			"state":"PAID","ratio":{"$float":"-Infinity"},"lines":[null,1,"two",null],
			"more":{"a":{"$tuple":["shop.Card",{"number":"1"}]},"b":null},"list":["x"],"table":{"k":1}}`,
		branches: []branch{
			{"/paid", "shop.Card"},
			{"/free", "shop.Gift"},
			{"/state", "shop.State"},
			{"/ratio", "double"},
			{"/more/a", "shop.Card"},
		},
		edit: `{"none":"some","count":-9007199254740993,"label":null,"either":7,
			"paid":{"shop.Card":{"number":"5"}},"lines":["three",null,-4],"list":null,"table":{"k":2,"l":3}}`,
	},
	{
		name: "avro-logical", format: official.Avro, schema: avroLogical,
		value: `{"day":{"$date":"1969-07-20"},"milli":{"$time":"23:59:59.999"},"micro":{"$time":"00:00:00.000001"},
			"at":{"$datetime":"2026-11-23T10:00:00.120Z"},"exact":{"$datetime":"1901-02-03T04:05:06.000007+01:00"},
			"local":{"$datetime":"2026-11-23T10:00:00.001"},"wall":{"$datetime":"9999-12-31T23:59:59.999999"},
			"id":"5f0c8a52-30a4-4a45-b94c-3a6e5f2d0c11","until":{"$datetime":"1969-12-31T23:59:59.999Z"},
			"days":[{"$date":"0001-01-01"},{"$date":"9999-12-31"}],"by":{"a":{"$date":"2024-02-29"}},"other":5}`,
		edit: `{"day":"2024-02-29","milli":"00:00:00.001","micro":"23:59:59.999999","at":"1969-12-31T23:59:59.001Z",
			"exact":"2026-11-23T10:00:00.000001Z","local":"0001-01-01T00:00:00.000",
			"wall":"2026-11-23T10:00:00.000000",
			"id":"123e4567-e89b-12d3-a456-426614174000","until":null,"days":["1970-01-01"],"by":{},"other":-1}`,
	},
	{
		name: "avro-decimals", format: official.Avro, schema: avroDecimals,
		value: `{"price":{"$decimal":"-12.50"},"zero":{"$decimal":"0.00"},"edge":{"$decimal":"1.28"},
			"whole":{"$decimal":"-128"},
			"huge":{"$decimal":"12345678901234567890123456789.012345678"},"packed":{"$decimal":"-0.0001"},
			"some":{"$decimal":"7.10"},"none":null,"all":[{"$decimal":"0.01"},{"$decimal":"-99.99"}]}`,
		edit: `{"price":"12.51","zero":"-0.01","edge":"-1.28","whole":"127",
			"huge":"-99999999999999999999999999999.999999999",
			"packed":"214748.3647","some":null,"none":"-3.00","all":["0.00","32767.00"]}`,
	},
	{
		name: "avro-nested", format: official.Avro, node: true, schema: avroNested,
		value: `{"id":-4503599627370496,"small":-2147483648,"ok":true,"single":0.1,"double":1.7976931348623157e308,
			"raw":{"$bytes":"AP9hIlwK"},"hash":{"$bytes":"AAECAw=="},"state":"NEW",
			"lines":[{"sku":"tea","tags":{"a":["x","y"],"":[]}},{"sku":"","tags":{}}],
			"owner":{"name":"Ana","address":{"city":"Rome"}},"past":["PAID","NEW"],"empty":{},"nothing":null}`,
		edit: `{"id":9007199254740993,"small":2147483647,"ok":false,"single":3.4028235e38,"double":5e-324,
			"raw":"\u0000\u00ff",
			"hash":"abcd","state":"PAID","lines":[{"sku":"é","tags":{"ключ":["z"]}}],"owner":{"name":"",
			"address":{"city":"Oslo"}},"past":[]}`,
	},
	{
		name: "avro-recursive", format: official.Avro, node: true, schema: avroRecursive,
		value: `{"name":"a","next":{"name":"b","next":null,"children":[]},"children":[
			{"name":"c","next":null,"children":[{"name":"d","next":null,"children":[]}]}]}`,
		edit: `{"next":{"name":"b","next":{"name":"e","next":null,"children":[]},"children":[]},"children":[]}`,
	},
	{
		name: "avro-references", format: official.Avro, node: true, schema: avroOrder,
		references: []official.Reference{
			{Name: "shop.Currency", Subject: "currency-avro", Schema: avroCurrency},
			{Name: "shop.Money", Subject: "money-avro", Schema: avroMoney},
		},
		value:   `{"id":1,"total":{"cents":120,"currency":"EUR"},"currency":"USD","tip":null}`,
		edit:    `{"total":{"cents":-1,"currency":"USD"},"tip":{"cents":5,"currency":"EUR"}}`,
		evolved: avroOrderEvolved,
		inLatest: `{"note":"none","country":null,"priority":7,"fee":"1.28","since":"2024-02-29","flags":["a"],
			"rates":{"vat":0.5},
			"base":{"cents":9007199254740993,"currency":"EUR"},"code":"\u0000ÿ","state":"OPEN"}`,
	},
	{
		name: "avro-events", format: official.Avro, schema: `["shop.Paid","shop.Shipped"]`,
		references: []official.Reference{
			{Name: "shop.Paid", Subject: "paid-avro", Schema: avroPaid},
			{Name: "shop.Shipped", Subject: "shipped-avro", Schema: avroShipped},
		},
		value:    `{"$tuple":["shop.Shipped",{"id":"5f0c8a52-30a4-4a45-b94c-3a6e5f2d0c11"}]}`,
		branches: []branch{{"", "shop.Shipped"}},
		edit:     `{"shop.Shipped":{"id":"123e4567-e89b-12d3-a456-426614174000"}}`,
	},
	{
		name: "protobuf-scalars", format: official.Protobuf, schema: protoScalars, message: "shop.Scalars",
		value: `{"d":"NaN","f":0.1,"i32":-2147483648,"i64":"-9223372036854775808","u32":4294967295,
			"u64":"18446744073709551615",
			"s32":-1,"s64":"-9007199254740993","fx32":1,"fx64":"2","sfx32":-3,"sfx64":"-4","flag":true,
			"text":"é\u0000😀","raw":"AP9h",
			"state":"PAID","maybe":0,"packed":[1,-1,300],"words":["",""],"byNumber":{"-7":"x"},"byFlag":{"true":"2"},
			"byText":{"":{"name":"n"}},"quantity":5,"custom_name":"c","states":["NEW","PAID",7]}`,
		edit: `{"d":"-Infinity","f":3.5,"i64":"9223372036854775807","text":null,"raw":"/w==","maybe":null,
			"packed":null,"byNumber":{"7":"y","8":"z"},
			"byText":{"k":{"name":"m"},"l":{}},"quantity":null,"weight":1e-7,"state":"NEW"}`,
	},
	{
		name: "protobuf-nested", format: official.Protobuf, schema: protoNested, message: "shop.Order.Line.Part",
		references: []official.Reference{
			{Name: "shop/currency.proto", Subject: "currency-proto", Schema: protoCurrency},
			{Name: "shop/money.proto", Subject: "money-proto", Schema: protoMoney},
		},
		value: `{"price":{"cents":"120","currency":"EUR"},"at":"2026-11-23T10:00:00.120Z","took":"-1.500s",
			"name":null,"count":"0",
			"mask":"priceLow,at.seconds","any":{"a":[1,null,{"b":"x"}]},"tax":{"value":"/w==","scale":2},
			"detail":{"@type":"type.googleapis.com/shop.Money","cents":"7"},
			"parent":{"line":"tea","parts":[{"took":"0s"}]}}`,
		edit: `{"price":{"cents":"-5"},"at":"0001-01-01T00:00:00Z","took":"315576000000s","name":"",
			"count":"9007199254740993",
			"any":{"c":false},"detail":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"},
			"parent":{"line":"tea","parts":[{"took":"0.000000001s"},{}]}}`,
	},
	{
		name: "protobuf-unknown", format: official.Protobuf, schema: protoUnknown, message: "shop.Order",
		// id 5, note (9) "new", line (2) {sku (1) "tea", weight (8) 7}, total (10) {cents (1) 3}
		value: `{"$raw":"CAVKA25ldxIHCgN0ZWFAB1ICCAM="}`,
		edit:  `{"id":"6","line":{"sku":"coffee"}}`, reader: protoUnknownReader, evolved: protoUnknownReader,
		unknown: `{"note":"new","line":{"sku":"coffee","weight":7},"total":{"cents":"3"}}`, inLatest: `{}`,
	},
	{
		name: "protobuf-2", format: official.Protobuf, schema: proto2, message: "shop.Legacy",
		value: `{"id":1,"state":"PAID","text":"t","group":{"n":2},"many":[1,2],"[shop.extra]":"e",
			"[shop.Legacy.more]":{"n":3}}`,
		edit: `{"id":0,"state":"NEW","group":{"n":0},"many":null,"[shop.extra]":"","[shop.Legacy.more]":{"n":4}}`,
	},
	{
		name: "protobuf-node", format: official.Protobuf, schema: protoUnknown, message: "shop.Order",
		value: `{"id":5}`, onlyNode: true,
	},
	{
		name: "json-references", format: official.JSON, schema: jsonOrder, node: true,
		references: []official.Reference{
			{Name: "money.json", Subject: "money-json", Schema: jsonMoney},
		},
		value: `{"id":9007199254740993,"total":{"cents":5},"lines":[{"sku":"é","price":{"cents":-1}}],
			"parent":{"id":1}}`,
		edit: `{"id":9223372036854775807,"lines":[],"parent":{"id":2,"parent":{"id":3}}}`,
	},
	{
		name: "json-choices", format: official.JSON, schema: jsonChoices, node: true,
		value: `{"kind":"card","state":"NEW","amount":1e-7,"ratio":1.5,"tags":{"x-a":[true,null]},
			"at":"2026-11-23T10:00:00Z"}`,
		edit: `{"state":"PAID","amount":12.50,"tags":{}}`,
	},
}

const (
	avroUnions = `{"type":"record","name":"Payment","namespace":"shop","fields":[
		{"name":"none","type":["null","string"]},
		{"name":"count","type":["null","long"],"default":null},
		{"name":"label","type":["string","null"]},
		{"name":"either","type":["int","string"]},
		{"name":"paid","type":["null",{"type":"record","name":"Card","fields":[{"name":"number","type":"string"}]},
			{"type":"record","name":"Gift","fields":[{"name":"number","type":"string"}]}]},
		{"name":"free","type":["Card","Gift"]},
		{"name":"state","type":[{"type":"enum","name":"State","symbols":["NEW","PAID"]},"string"]},
		{"name":"ratio","type":["null","double"]},
		{"name":"lines","type":{"type":"array","items":["null","int","string"]}},
		{"name":"more","type":{"type":"map","values":["null","Card","Gift"]}},
		{"name":"list","type":["null",{"type":"array","items":"string"}]},
		{"name":"table","type":["null",{"type":"map","values":"int"}]}]}`

	avroLogical = `{"type":"record","name":"Moments","namespace":"shop","fields":[
		{"name":"day","type":{"type":"int","logicalType":"date"}},
		{"name":"milli","type":{"type":"int","logicalType":"time-millis"}},
		{"name":"micro","type":{"type":"long","logicalType":"time-micros"}},
		{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
		{"name":"exact","type":{"type":"long","logicalType":"timestamp-micros"}},
		{"name":"local","type":{"type":"long","logicalType":"local-timestamp-millis"}},
		{"name":"wall","type":{"type":"long","logicalType":"local-timestamp-micros"}},
		{"name":"id","type":{"type":"string","logicalType":"uuid"}},
		{"name":"until","type":["null",{"type":"long","logicalType":"timestamp-millis"}]},
		{"name":"days","type":{"type":"array","items":{"type":"int","logicalType":"date"}}},
		{"name":"by","type":{"type":"map","values":["null",{"type":"int","logicalType":"date"}]}},
		{"name":"other","type":{"type":"long","logicalType":"shop-ticks"}}]}`

	avroDecimals = `{"type":"record","name":"Amounts","namespace":"shop","fields":[
		{"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"zero","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"edge","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
		{"name":"whole","type":{"type":"bytes","logicalType":"decimal","precision":5}},
		{"name":"huge","type":{"type":"bytes","logicalType":"decimal","precision":38,"scale":9}},
		{"name":"packed","type":{"type":"fixed","name":"Packed","size":5,"logicalType":"decimal",
			"precision":10,"scale":4}},
		{"name":"some","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]},
		{"name":"none","type":["null",{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}]},
		{"name":"all","type":{"type":"array","items":{"type":"bytes","logicalType":"decimal",
			"precision":9,"scale":2}}}]}`

	avroNested = `{"type":"record","name":"Nested","namespace":"shop","doc":"An order.","aliases":["Old"],"fields":[
		{"name":"id","type":"long","doc":"64 bits","order":"descending"},
		{"name":"small","type":"int"},
		{"name":"ok","type":"boolean"},
		{"name":"single","type":"float"},
		{"name":"double","type":"double"},
		{"name":"raw","type":"bytes"},
		{"name":"hash","type":{"type":"fixed","name":"Hash","size":4}},
		{"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","PAID"],"default":"NEW"}},
		{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line","fields":[
			{"name":"sku","type":"string"},
			{"name":"tags","type":{"type":"map","values":{"type":"array","items":"string"}}}]}}},
		{"name":"owner","type":{"type":"record","name":"Owner","namespace":"people","fields":[
			{"name":"name","type":"string"},
			{"name":"address","type":{"type":"record","name":"Address","fields":[
				{"name":"city","type":"string"}]}}]}},
		{"name":"past","type":{"type":"array","items":"State"}},
		{"name":"empty","type":{"type":"map","values":"people.Address"}},
		{"name":"nothing","type":"null"}]}`

	avroRecursive = `{"type":"record","name":"Tree","namespace":"shop","fields":[
		{"name":"name","type":"string"},
		{"name":"next","type":["null","Tree"]},
		{"name":"children","type":{"type":"array","items":"shop.Tree"}}]}`

	avroCurrency = `{"type":"enum","name":"Currency","namespace":"shop","symbols":["EUR","USD"]}`
	avroMoney    = `{"type":"record","name":"Money","namespace":"shop","fields":[
		{"name":"cents","type":"long"},{"name":"currency","type":"Currency"}]}`
	avroOrder = `{"type":"record","name":"Order","namespace":"shop","fields":[
		{"name":"id","type":"long"},
		{"name":"total","type":"shop.Money"},
		{"name":"currency","type":"shop.Currency"},
		{"name":"tip","type":["null","shop.Money"]}]}`
	avroOrderEvolved = `{"type":"record","name":"Order","namespace":"shop","fields":[
		{"name":"note","type":"string","default":"none"},
		{"name":"id","type":"long"},
		{"name":"country","type":["null","string"],"default":null},
		{"name":"total","type":"shop.Money"},
		{"name":"currency","type":"shop.Currency"},
		{"name":"tip","type":["null","shop.Money"]},
		{"name":"priority","type":"int","default":7},
		{"name":"fee","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2},
			"default":"\u0000\u0080"},
		{"name":"since","type":{"type":"int","logicalType":"date"},"default":19782},
		{"name":"flags","type":{"type":"array","items":"string"},"default":["a"]},
		{"name":"rates","type":{"type":"map","values":"double"},"default":{"vat":0.5}},
		{"name":"base","type":"shop.Money","default":{"cents":9007199254740993,"currency":"EUR"}},
		{"name":"code","type":"bytes","default":"\u0000\u00ff"},
		{"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","OPEN"]},"default":"OPEN"}]}`

	avroPaid    = `{"type":"record","name":"Paid","namespace":"shop","fields":[{"name":"id","type":"string"}]}`
	avroShipped = `{"type":"record","name":"Shipped","namespace":"shop","fields":[{"name":"id","type":"string"}]}`

	protoScalars = `syntax = "proto3";
package shop;
enum State { UNKNOWN = 0; NEW = 1; PAID = 2; }
message Item { string name = 1; }
message Scalars {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6; sint32 s32 = 7;
  sint64 s64 = 8;
  fixed32 fx32 = 9; fixed64 fx64 = 10; sfixed32 sfx32 = 11; sfixed64 sfx64 = 12; bool flag = 13; string text = 14;
  bytes raw = 15;
  State state = 16;
  optional int32 maybe = 17;
  repeated int32 packed = 18;
  repeated string words = 19;
  map<sint64, string> by_number = 20;
  map<bool, uint64> by_flag = 21;
  map<string, Item> by_text = 22;
  oneof amount { int32 quantity = 23; double weight = 24; Item item = 25; }
  string renamed = 26 [json_name = "custom_name"];
  repeated State states = 300;
  reserved 100 to 200;
}
`

	protoCurrency = "syntax = \"proto3\";\npackage shop;\nenum Currency { NONE = 0; EUR = 1; }\n"
	protoMoney    = `syntax = "proto3";
package shop;
import "shop/currency.proto";
message Money { int64 cents = 1; Currency currency = 2; }
`
	protoNested = `syntax = "proto3";
package shop;
import "confluent/type/decimal.proto";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "shop/money.proto";
message First {}
message Order {
  message Empty {}
  message Line {
    message Other {}
    message Part {
      Money price = 1;
      google.protobuf.Timestamp at = 2;
      google.protobuf.Duration took = 3;
      google.protobuf.StringValue name = 4;
      google.protobuf.Int64Value count = 5;
      google.protobuf.FieldMask mask = 6;
      google.protobuf.Struct any = 7;
      confluent.type.Decimal tax = 8;
      Line parent = 9;
      google.protobuf.Any detail = 10;
    }
    string line = 1;
    repeated Part parts = 2;
  }
}
`

	protoUnknown = `syntax = "proto3";
package shop;
message Order { message Line { string sku = 1; } int64 id = 1; Line line = 2; }
`
	protoUnknownReader = `syntax = "proto3";
package shop;
message Money { int64 cents = 1; }
message Order {
  message Line { string sku = 1; int32 weight = 8; }
  int64 id = 1; Line line = 2; string note = 9; Money total = 10;
}
`

	proto2 = `syntax = "proto2";
package shop;
enum State { NEW = 0; PAID = 5; }
message Legacy {
  required int32 id = 1;
  optional State state = 2 [default = PAID];
  optional string text = 3 [default = "t"];
  optional group Group = 4 { optional int32 n = 1; }
  repeated int32 many = 5 [packed = true];
  extensions 100 to 199;
  message More { optional int32 n = 1; }
  extend Legacy { optional More more = 101; }
}
extend Legacy { optional string extra = 100; }
`

	jsonMoney = `{"$id":"money.json","type":"object","properties":{"cents":{"type":"integer"}},"required":["cents"]}`
	jsonOrder = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Order","type":"object","properties":{
		"id":{"type":"integer"},"total":{"$ref":"money.json"},"parent":{"$ref":"#"},
		"lines":{"type":"array","items":{"type":"object","properties":{"sku":{"type":"string"},
			"price":{"$ref":"money.json"}}}}},
		"required":["id"],"additionalProperties":false}`
	jsonChoices = `{"$schema":"http://json-schema.org/draft-07/schema#","title":"Choice","type":"object",
		"properties":{"state":{"enum":["NEW","PAID"],"default":"NEW"},"amount":{"type":"number"},
		"tags":{"type":"object","patternProperties":{"^x-":{"type":"array","items":{"type":["boolean","null"]}}}}},
		"oneOf":[{"properties":{"kind":{"const":"card"}}},{"properties":{"kind":{"const":"gift"}}}]}`
)
