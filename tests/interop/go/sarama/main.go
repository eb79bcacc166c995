// sarama against one server: producing with every codec and protocol generation, partition consumers, admin.
package main

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
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
	brokers := []string{os.Args[1]}
	suffix := fmt.Sprint(os.Getpid())
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	admin, err := sarama.NewClusterAdmin(brokers, config)
	must(err)
	for _, version := range []sarama.KafkaVersion{sarama.V2_1_0_0, sarama.V3_6_0_0, sarama.MaxVersion} {
		for codec := sarama.CompressionNone; codec <= sarama.CompressionZSTD; codec++ {
			topic := fmt.Sprintf("sarama-%d-%s-%s", codec, version, suffix)
			must(admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false))
			settings := sarama.NewConfig()
			settings.Version = version
			settings.Producer.Compression = codec
			settings.Producer.Return.Successes = true
			settings.Producer.RequiredAcks = sarama.WaitForAll
			settings.Producer.Idempotent = true
			settings.Net.MaxOpenRequests = 1
			producer, err := sarama.NewSyncProducer(brokers, settings)
			must(err)
			var messages []*sarama.ProducerMessage
			for number := 0; number < 500; number++ {
				messages = append(messages, &sarama.ProducerMessage{
					Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(fmt.Sprintf("value %d", number)),
					Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("1")}},
				})
			}
			must(producer.SendMessages(messages))
			must(producer.Close())
			consumer, err := sarama.NewConsumer(brokers, settings)
			must(err)
			partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
			must(err)
			for number := int64(0); number < 500; number++ {
				select {
				case message := <-partition.Messages():
					truth(message.Offset == number && string(message.Value) == fmt.Sprintf("value %d", number), "offset %d is %s", message.Offset, message.Value)
				case <-time.After(15 * time.Second):
					truth(false, "%s %v: nothing after %d records", version, codec, number)
				}
			}
			must(partition.Close())
			must(consumer.Close())
		}
	}
	topics, err := admin.ListTopics()
	must(err)
	truth(len(topics) >= 15, "%d topics", len(topics))
	topic := fmt.Sprintf("sarama-0-%s-%s", sarama.MaxVersion, suffix)
	must(admin.CreatePartitions(topic, 3, nil, false))
	must(admin.DeleteRecords(topic, map[int32]int64{0: 100}))
	client, err := sarama.NewClient(brokers, config)
	must(err)
	oldest, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	must(err)
	truth(oldest == 100, "oldest offset %d", oldest)
	entries, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	must(err)
	truth(len(entries) == 1 && entries[0].Value == "604800000", "configs %v", entries)
	described, controller, err := admin.DescribeCluster()
	must(err)
	truth(len(described) == 1 && controller == 1, "cluster %v %d", described, controller)
	must(admin.DeleteTopic(topic))
	fmt.Println("ok")
}
