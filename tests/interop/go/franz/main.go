// franz-go against one server: idempotent producing with every codec, direct consuming, offsets, admin.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
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
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	must(err)
	admin := kadm.NewClient(client)
	suffix := fmt.Sprint(os.Getpid())

	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		topic := "franz-" + name + "-" + suffix
		_, err := admin.CreateTopic(ctx, 1, 1, nil, topic)
		must(err)
		producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
		must(err)
		var records []*kgo.Record
		for number := 0; number < 3000; number++ {
			records = append(records, &kgo.Record{
				Key: []byte("k"), Value: []byte(fmt.Sprintf("value %d", number)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}},
			})
		}
		must(producer.ProduceSync(ctx, records...).FirstErr())
		producer.Close()
		consumer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		must(err)
		next := int64(0)
		for next < 3000 {
			fetches := consumer.PollFetches(ctx)
			must(fetches.Err())
			fetches.EachRecord(func(record *kgo.Record) {
				truth(record.Offset == next, "%s: offset %d after %d", name, record.Offset, next)
				truth(string(record.Value) == fmt.Sprintf("value %d", next) && len(record.Headers) == 1, "%s: record %d is %s", name, next, record.Value)
				next++
			})
		}
		consumer.Close()
	}

	topic := "franz-admin-" + suffix
	created, err := admin.CreateTopics(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("12345")}, topic)
	must(err)
	must(created.Error())
	_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
	truth(errors.Is(err, kerr.TopicAlreadyExists), "creating twice: %v", err)
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(err)
	start := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for number := 0; number < 100; number++ {
		must(producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 1, Value: []byte("x"), Timestamp: start.Add(time.Duration(number) * time.Second)}).FirstErr())
	}
	offsets, err := admin.ListEndOffsets(ctx, topic)
	must(err)
	end, _ := offsets.Lookup(topic, 1)
	truth(end.Offset == 100, "end offset %d", end.Offset)
	offsets, err = admin.ListOffsetsAfterMilli(ctx, start.UnixMilli()+49_500, topic)
	must(err)
	after, _ := offsets.Lookup(topic, 1)
	truth(after.Offset == 50, "offset by time %d", after.Offset)
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {1: {Topic: topic, Partition: 1, At: 10}}})
	must(err)
	must(deleted.Error())
	offsets, err = admin.ListStartOffsets(ctx, topic)
	must(err)
	first, _ := offsets.Lookup(topic, 1)
	truth(first.Offset == 10, "start offset %d", first.Offset)
	grown, err := admin.CreatePartitions(ctx, 1, topic)
	must(err)
	must(grown.Error())
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	must(err)
	config, err := configs.On(topic, nil)
	must(err)
	found := false
	for _, entry := range config.Configs {
		found = found || entry.Key == "retention.ms" && *entry.Value == "12345" && entry.Source.String() == "DYNAMIC_TOPIC_CONFIG"
	}
	truth(found, "retention.ms is not among the topic's configs")
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("54321")}}, topic)
	must(err)
	must(altered[0].Err)
	dirs, err := admin.DescribeAllLogDirs(ctx, nil)
	must(err)
	truth(len(dirs) == 1, "log dirs of %d brokers", len(dirs))
	metadata, err := admin.BrokerMetadata(ctx)
	must(err)
	truth(len(metadata.Brokers) == 1 && metadata.Controller == 1, "brokers %v", metadata.Brokers)
	versions, err := admin.ApiVersions(ctx)
	must(err)
	truth(len(versions) == 1, "versions of %d brokers", len(versions))
	_, err = admin.DeleteTopic(ctx, topic)
	must(err)
	fmt.Println("ok")
}
