package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	client "github.com/dlq-manager/dlq-manager/clients/go"
)

// The program starts a redrive for each open error group on the first page of the list, with a canary of two messages.
// If more than half of the canary fails again, the redrive sends no further message.
func Example() {
	ctx := context.Background()
	api, err := client.NewClientWithResponses("http://127.0.0.1:8080", client.WithToken(os.Getenv("DLQ_TOKEN")))
	if err != nil {
		log.Fatal(err)
	}
	groups, err := api.ListGroupsWithResponse(ctx, &client.ListGroupsParams{Open: new(true)})
	if err != nil {
		log.Fatal(err)
	}
	if groups.JSON200 == nil { // when the API refuses a request, err is nil and JSON200 is nil
		log.Fatal(groups.JSONDefault.Error.Message)
	}
	for _, group := range groups.JSON200.Groups {
		fmt.Println(group.Title, group.Open)
		made, err := api.CreateRedriveWithResponse(ctx, nil, client.RedriveOrder{
			Filter: &client.Filter{GroupId: &group.Id},
			Canary: new(2), MaxReturnShare: new(float32(0.5)),
		})
		if err != nil || made.JSON202 == nil {
			log.Fatal(err, made)
		}
		fmt.Println("redrive", made.JSON202.Id)
	}
}

// An export may be larger than the program's memory.
func ExampleExport() {
	api, err := client.NewClient("http://127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	came, err := client.Export(context.Background(), api, &client.ExportMessagesParams{
		ErrorClass: new("java.net.SocketTimeoutException"), Format: new(client.ExportMessagesParamsFormatCsv),
	}, os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, came.Messages, "messages, all of them:", came.Complete)
}
