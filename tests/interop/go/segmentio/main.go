// segmentio/kafka-go against one server: its writer with every codec and its reader of one partition.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

func must(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func truth(claim bool, format string, values ...any) {
	if !claim {
		log.Output(2, fmt.Sprintf(format, values...))
		os.Exit(1)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	bootstrap := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	suffix := fmt.Sprint(os.Getpid())
	client := &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: 10 * time.Second}
	for codec := kafka.Compression(0); codec <= kafka.Zstd; codec++ {
		topic := fmt.Sprintf("segmentio-%d-%s", codec, suffix)
		created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}})
		must(err)
		must(created.Errors[topic])
		writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codec, BatchTimeout: 5 * time.Millisecond}
		var messages []kafka.Message
		for number := 0; number < 500; number++ {
			messages = append(messages, kafka.Message{Key: []byte("k"), Value: []byte(fmt.Sprintf("value %d", number)), Headers: []kafka.Header{{Key: "h", Value: []byte("1")}}})
		}
		must(writer.WriteMessages(ctx, messages...))
		must(writer.Close())
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, Topic: topic, Partition: 0, MaxBytes: 1e6, MaxWait: 200 * time.Millisecond})
		for number := int64(0); number < 500; number++ {
			message, err := reader.ReadMessage(ctx)
			must(err)
			truth(message.Offset == number && string(message.Value) == fmt.Sprintf("value %d", number), "offset %d is %s", message.Offset, message.Value)
		}
		must(reader.Close())
	}
	topic := "segmentio-0-" + suffix
	offsets, err := client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}}})
	must(err)
	truth(offsets.Topics[topic][0].FirstOffset == 0 && offsets.Topics[topic][0].LastOffset == 500, "offsets %v", offsets.Topics[topic])
	connection, err := kafka.Dial("tcp", bootstrap)
	must(err)
	controller, err := connection.Controller()
	must(err)
	truth(net.JoinHostPort(controller.Host, fmt.Sprint(controller.Port)) == bootstrap, "controller %v", controller)
	must(connection.DeleteTopics(topic))
	fmt.Println("ok")
}
