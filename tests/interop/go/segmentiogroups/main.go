// segmentio/kafka-go's readers in a group, and its client's view of groups.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
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
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	client := &kafka.Client{Addr: kafka.TCP(bootstrap)}
	for name, balancer := range map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}} {
		topic := fmt.Sprintf("segmentio-group-%s-%d", name, os.Getpid())
		created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 6, ReplicationFactor: 1}}})
		must(err)
		must(created.Errors[topic])
		time.Sleep(time.Second) // Kafka's broker leads the new partitions a moment later, and this client does not ask again
		var lock sync.Mutex
		seen := map[string]int{}
		reader := func() (*kafka.Reader, chan struct{}) {
			r := kafka.NewReader(kafka.ReaderConfig{
				Brokers: []string{bootstrap}, GroupID: topic, Topic: topic, GroupBalancers: []kafka.GroupBalancer{balancer}, MaxWait: 100 * time.Millisecond,
				StartOffset: kafka.FirstOffset, HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 3 * time.Second, RebalanceTimeout: 3 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
			})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					message, err := r.FetchMessage(ctx)
					if err != nil {
						return
					}
					lock.Lock()
					seen[fmt.Sprint(message.Partition, "/", message.Offset)]++
					lock.Unlock()
					if r.CommitMessages(ctx, message) != nil {
						return
					}
				}
			}()
			return r, done
		}
		first, firstDone := reader()
		second, secondDone := reader()
		describe := func() kafka.DescribeGroupsResponseGroup {
			described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{topic}})
			must(err)
			return described.Groups[0]
		}
		wait := func(members int) {
			for group := describe(); group.GroupState != "Stable" || len(group.Members) != members; group = describe() {
				truth(ctx.Err() == nil, "the group never has %d members: %+v", members, group)
				time.Sleep(50 * time.Millisecond)
			}
		}
		wait(2)
		for _, member := range describe().Members {
			truth(len(member.MemberAssignments.Topics) == 1 && len(member.MemberAssignments.Topics[0].Partitions) == 3, "%+v", member)
		}
		write := func(each int) {
			writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, Balancer: &kafka.RoundRobin{}, BatchTimeout: 5 * time.Millisecond, RequiredAcks: kafka.RequireAll}
			var messages []kafka.Message
			for number := 0; number < 6*each; number++ {
				messages = append(messages, kafka.Message{Value: []byte("x")})
			}
			must(writer.WriteMessages(ctx, messages...))
			must(writer.Close())
		}
		read := func(count int) {
			for {
				lock.Lock()
				size := len(seen)
				lock.Unlock()
				if size >= count {
					break
				}
				truth(ctx.Err() == nil, "read %d of %d", size, count)
				time.Sleep(20 * time.Millisecond)
			}
			lock.Lock()
			defer lock.Unlock()
			for record, times := range seen {
				truth(times == 1, "%s was read %d times", record, times)
			}
		}
		write(20)
		read(120)
		must(first.Close())
		<-firstDone
		wait(1)
		write(20)
		read(240)
		must(second.Close())
		<-secondDone
		fetched, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: topic, Topics: map[string][]int{topic: {0, 1, 2, 3, 4, 5}}})
		must(err)
		total := int64(0)
		for _, partition := range fetched.Topics[topic] {
			must(partition.Error)
			total += partition.CommittedOffset
		}
		truth(total == 240, "committed %d", total)
		listed, err := client.ListGroups(ctx, &kafka.ListGroupsRequest{})
		must(err)
		truth(len(listed.Groups) > 0, "no groups are listed")
		deleted, err := client.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{topic}})
		must(err)
		must(deleted.Errors[topic])
	}
	fmt.Println("ok")
}
