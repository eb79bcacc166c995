// kafkajs's consumers in a group: sharing, taking over, commits, static topics and patterns, and its admin client.
const assert = require('node:assert/strict')
const { Kafka, AssignerProtocol, logLevel } = require('kafkajs')

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 5, initialRetryTime: 50 } })

async function eventually(what, holds) {
  for (const end = Date.now() + 30000; !(await holds()); ) {
    assert(Date.now() < end, what)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

class Member {
  constructor(groupId, topic, seen) {
    this.owned = []
    this.seen = seen
    this.topic = topic
    this.consumer = kafka.consumer({ groupId, sessionTimeout: 3000, heartbeatInterval: 200, rebalanceTimeout: 3000, metadataMaxAge: 1000, maxWaitTimeInMs: 100 })
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => { this.owned = Object.values(payload.memberAssignment).flat() })
  }

  async join() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [this.topic], fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        const record = `${partition}/${message.offset}`
        this.seen.set(record, (this.seen.get(record) ?? 0) + 1)
        await this.consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
      },
    })
    return this
  }

  async leave() {
    await this.consumer.disconnect()
    this.owned = []
  }
}

async function sharesAre(members, ...sizes) {
  await eventually(`the shares are never ${sizes}`, () => {
    const owned = members.map(member => member.owned)
    return owned.map(share => share.length).sort().join() === sizes.join() && new Set(owned.flat()).size === 6
  })
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  const topic = `kafkajs-group-${process.pid}`
  const groupId = topic
  await admin.createTopics({ topics: [{ topic, numPartitions: 6 }], waitForLeaders: true })
  const producer = kafka.producer()
  await producer.connect()
  const write = async each => {
    const messages = Array.from({ length: 6 * each }, (_, number) => ({ partition: number % 6, value: 'x' }))
    await producer.send({ topic, messages })
  }
  const seen = new Map()
  const read = async each => {
    await eventually(`read ${seen.size} of ${6 * each}`, () => seen.size >= 6 * each)
    for (const [record, times] of seen) assert.equal(times, 1, `${record} was read ${times} times`)
  }
  const first = await new Member(groupId, topic, seen).join()
  await sharesAre([first], 6)
  const second = await new Member(groupId, topic, seen).join()
  await sharesAre([first, second], 3, 3)
  await write(20)
  await read(20)
  const { groups: described } = await admin.describeGroups([groupId])
  assert.deepEqual([described[0].state, described[0].protocolType, described[0].protocol, described[0].members.length], ['Stable', 'consumer', 'RoundRobinAssigner', 2])
  const assigned = AssignerProtocol.MemberAssignment.decode(described[0].members[0].memberAssignment).assignment[topic]
  assert.equal(assigned.length, 3)
  await assert.rejects(admin.deleteGroups([groupId]), failure => failure.groups[0].error.type === 'NON_EMPTY_GROUP')
  await first.leave()
  await sharesAre([second], 6)
  await write(20)
  await read(40)
  await second.leave()
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] })
  assert.deepEqual(partitions.map(({ offset }) => offset), Array(6).fill('40'))
  assert((await admin.listGroups()).groups.some(group => group.groupId === groupId && group.protocolType === 'consumer'))
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 2, offset: '7' }] })
  await admin.resetOffsets({ groupId, topic, earliest: true })
  const [{ partitions: reset }] = await admin.fetchOffsets({ groupId, topics: [topic], resolveOffsets: true })
  assert.deepEqual(reset.map(({ offset }) => offset), Array(6).fill('0'))
  await admin.deleteGroups([groupId])
  await producer.disconnect()

  const pattern = kafka.consumer({ groupId: `${groupId}-pattern`, sessionTimeout: 3000, heartbeatInterval: 200 })
  await pattern.connect()
  await pattern.subscribe({ topic: new RegExp(`${topic}.*`), fromBeginning: true })
  let count = 0
  await pattern.run({ autoCommitInterval: 100, eachBatch: async ({ batch }) => { count += batch.messages.length } })
  await eventually('a pattern reads everything', () => count === 240)
  await pattern.disconnect()
  await admin.disconnect()
  console.log('ok')
}

main().catch(failure => {
  console.error(failure)
  process.exit(1)
})
