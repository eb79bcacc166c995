// A registry as Go programs use it: franz-go's sr client and serde, hamba/avro's registry client.
//
//	registry URL HEX
//
// reads an Avro value that another language wrote, and prints one of its own as hex.
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hamba/avro/v2"
	"github.com/hamba/avro/v2/registry"
	"github.com/twmb/franz-go/pkg/sr"
)

const text = `{"type":"record","name":"Line","fields":[{"name":"item","type":"string"},{"name":"count","type":"long"}]}`

type line struct {
	Item  string `avro:"item"`
	Count int64  `avro:"count"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(is bool, what string) {
	if !is {
		check(errors.New("not as expected: " + what))
	}
}

func main() {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(os.Args[1]))
	check(err)
	made, err := client.CreateSchema(ctx, "go-value", sr.Schema{Schema: text, Type: sr.TypeAvro})
	check(err)
	found, err := client.LookupSchema(ctx, "go-value", sr.Schema{Schema: text})
	check(err)
	expect(found.ID == made.ID && found.Version == 1, "lookup")
	subjects, err := client.Subjects(ctx)
	check(err)
	expect(strings.Contains(strings.Join(subjects, " "), "go-value"), "subjects")
	types, err := client.SupportedTypes(ctx)
	check(err)
	expect(len(types) == 3, "types")
	compatible, err := client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), "go-value", -1, sr.Schema{Schema: `"int"`})
	check(err)
	expect(!compatible.Is && len(compatible.Messages) > 0, "compatibility")
	for _, one := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "go-value") {
		check(one.Err)
	}
	level := client.Compatibility(ctx, "go-value")[0]
	check(level.Err)
	expect(level.Level == sr.CompatFull, "level")
	mode := client.SetMode(ctx, sr.ModeReadOnly, "go-value")[0]
	check(mode.Err)
	_, err = client.CreateSchema(ctx, "go-value", sr.Schema{Schema: `"int"`})
	var refused *sr.ResponseError
	expect(errors.As(err, &refused) && refused.ErrorCode == 42205, "read-only mode")
	check(client.SetMode(ctx, sr.ModeReadWrite, "go-value")[0].Err)
	versions, err := client.SchemaVersionsByID(ctx, made.ID)
	check(err)
	expect(len(versions) >= 1, "versions of an id")
	all, err := client.AllSchemas(ctx)
	check(err)
	expect(len(all) >= 1, "all schemas")
	_, err = client.SchemaByID(ctx, 4711)
	expect(errors.As(err, &refused) && refused.ErrorCode == 40403, "unknown id")

	// values, by franz-go's serde
	given, err := hex.DecodeString(os.Args[2])
	check(err)
	var header sr.ConfluentHeader
	id, payload, err := header.DecodeID(given)
	check(err)
	written, err := client.SchemaByID(ctx, id)
	check(err)
	schema, err := avro.Parse(written.Schema)
	check(err)
	var read line
	check(avro.Unmarshal(schema, payload, &read))
	expect(read == line{"pear", 2}, "the value of another language")
	var serde sr.Serde
	serde.Register(made.ID, line{}, sr.EncodeFn(func(v any) ([]byte, error) { return avro.Marshal(schema, v) }))
	data, err := serde.Encode(line{"fig", 3})
	check(err)

	// and by hamba/avro's own client
	other, err := registry.NewClient(os.Args[1])
	check(err)
	read = line{}
	check(registry.NewDecoder(other).Decode(ctx, data, &read))
	expect(read == line{"fig", 3}, "hamba/avro")
	deleted, err := client.DeleteSubject(ctx, "go-gone", sr.SoftDelete)
	expect(err != nil && len(deleted) == 0, "deleting what is not there")
	fmt.Println(hex.EncodeToString(data))
}
