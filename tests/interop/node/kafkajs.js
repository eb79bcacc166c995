// kafkajs against one server: producing with both of its built-in codecs, offsets and administration.
// It has no consumer without a group, so that reading is another client's matter.
const assert = require('node:assert/strict')
const { Kafka, CompressionTypes, ConfigResourceTypes, logLevel } = require('kafkajs')

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 3 } })

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  const topic = `kafkajs-${process.pid}`
  const entries = [{ name: 'retention.ms', value: '12345' }]
  assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: entries }], waitForLeaders: true }), true)
  assert.equal(await admin.createTopics({ topics: [{ topic }] }), false)
  let sent = 0
  for (const idempotent of [false, true]) {
    for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
      for (const acks of idempotent ? [-1] : [1, -1]) {
        const producer = kafka.producer({ idempotent, maxInFlightRequests: 1 })
        await producer.connect()
        const messages = Array.from({ length: 100 }, (_, number) => ({ partition: 0, key: 'k', value: `value ${number}`, headers: { h: '1' } }))
        const [answer] = await producer.send({ topic, acks, compression, messages })
        assert.deepEqual([answer.errorCode, answer.baseOffset], [0, String(sent)])
        sent += messages.length
        await producer.disconnect()
      }
    }
  }
  const offsets = (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition)
  assert.deepEqual(offsets.map(({ offset, high, low }) => [offset, high, low]), [[String(sent), String(sent), '0'], ['0', '0', '0']])
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '50' }] })
  const low = (await admin.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0).low
  assert.equal(low, '50')
  const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, 0)
  assert.equal(byTime.find(({ partition }) => partition === 0).offset, '50')
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ['retention.ms'] }] })
  assert.equal(resources[0].configEntries[0].configValue, '12345')
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '777' }] }] })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  await new Promise(resolve => setTimeout(resolve, 500))
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  assert.equal(topics[0].partitions.length, 3)
  const { brokers, controller } = await admin.describeCluster()
  assert.deepEqual([brokers.length, controller], [1, 1])
  assert((await admin.listTopics()).includes(topic))
  await admin.deleteTopics({ topics: [topic] })
  await admin.disconnect()
  console.log('ok')
}

main().catch(failure => {
  console.error(failure)
  process.exit(1)
})
