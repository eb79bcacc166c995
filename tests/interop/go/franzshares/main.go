// franz-go's share consumer: three members share a topic; they accept, release, reject and renew, one leaves midway.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const records, partitions = 2000, 3

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

// What all members saw of a record.
type seen struct{ deliveries, accepted, rejected int }

func beginAtStart(ctx context.Context, client *kgo.Client, group string) {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceType(32), group
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Value = "share.auto.offset.reset", kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, setting)
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	must(err)
	truth(response.Resources[0].ErrorCode == 0, "the group cannot be set: %v", response.Resources[0].ErrorCode)
}

func main() {
	log.SetFlags(log.Lshortfile)
	bootstrap := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 240*time.Second)
	defer cancel()
	name := fmt.Sprintf("franz-shares-%d", os.Getpid())
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(name), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	must(err)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, partitions, 1, nil, name)
	must(err)
	beginAtStart(ctx, client, name)
	var batch []*kgo.Record
	for number := 0; number < records; number++ {
		batch = append(batch, &kgo.Record{Value: []byte(fmt.Sprint(number))})
	}
	must(client.ProduceSync(ctx, batch...).FirstErr())

	var lock sync.Mutex
	all := make(map[string]*seen)
	done := func() (count int) {
		for _, one := range all {
			count += one.accepted + one.rejected
		}
		return
	}
	finished := make(chan struct{})
	var members sync.WaitGroup
	for number := 0; number < 3; number++ {
		members.Add(1)
		go func() {
			defer members.Done()
			options := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(name), kgo.ShareGroup(name), kgo.ShareMaxRecords(50)}
			if number == 1 {
				options = append(options, kgo.ShareMaxRecordsStrict())
			}
			member, err := kgo.NewClient(options...)
			must(err)
			defer member.Close()
			for polls := 0; number != 2 || polls < 4; {
				select {
				case <-finished:
					return
				default:
				}
				pause, end := context.WithTimeout(ctx, 500*time.Millisecond)
				fetches := member.PollFetches(pause)
				end()
				must(ctx.Err())
				got := fetches.Records()
				if len(got) > 0 {
					polls++
				}
				truth(number != 1 || len(got) <= 50, "a strict member got %d records", len(got))
				lock.Lock()
				for _, record := range got {
					of := all[string(record.Value)]
					if of == nil {
						of = &seen{}
						all[string(record.Value)] = of
					}
					of.deliveries++
					truth(int(record.DeliveryCount()) >= of.deliveries, "delivery %d has count %d", of.deliveries, record.DeliveryCount())
					truth(of.accepted+of.rejected == 0, "%s comes back", record.Value)
					switch {
					case record.Offset%10 == 0 && record.DeliveryCount() == 1:
						record.Ack(kgo.AckRelease)
					case record.Offset%25 == 1:
						of.rejected++
						record.Ack(kgo.AckReject)
					default:
						of.accepted++
						record.Ack(kgo.AckAccept)
					}
				}
				lock.Unlock()
				must(member.FlushAcks(ctx))
				lock.Lock()
				if done() == records {
					select {
					case <-finished:
					default:
						close(finished)
					}
				}
				lock.Unlock()
			}
		}()
	}
	<-finished
	members.Wait()
	released := 0
	for value, of := range all {
		truth(of.accepted+of.rejected == 1, "%s: %+v", value, *of)
		if of.deliveries > 1 {
			released++
		}
	}
	truth(len(all) == records && released >= records/10, "%d records, %d came twice", len(all), released)
	client.Close()
	fmt.Println("ok")
}
