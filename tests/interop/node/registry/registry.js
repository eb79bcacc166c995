// node registry.js URL HEX: reads an Avro value that another language wrote, prints one of its own as hex.
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const line = {
  type: 'record',
  name: 'Line',
  fields: [{ name: 'item', type: 'string' }, { name: 'count', type: 'long' }],
}
const jsonSchema = { type: 'object', title: 'Line', properties: { item: { type: 'string' } }, required: ['item'] }
const proto = 'syntax = "proto3"; package shop; message Line { string item = 1; int64 count = 2; }'

function expect(is, what) {
  if (!is) throw new Error(`not as expected: ${what}`)
}

async function main() {
  const registry = new SchemaRegistry({ host: process.argv[2] })
  const read = await registry.decode(Buffer.from(process.argv[3], 'hex'))
  expect(read.item === 'pear' && Number(read.count) === 2, JSON.stringify(read))
  const options = { subject: 'node-value', compatibility: COMPATIBILITY.FULL }
  const { id } = await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(line) }, options)
  expect((await registry.getLatestSchemaId('node-value')) === id, 'latest')
  expect((await registry.getRegistryId('node-value', 1)) === id, 'version')
  const asJson = await registry.register({ type: SchemaType.JSON, schema: JSON.stringify(jsonSchema) }, { subject: 'node-json' })
  expect((await registry.decode(await registry.encode(asJson.id, { item: 'fig' }))).item === 'fig', 'JSON')
  const asProto = await registry.register({ type: SchemaType.PROTOBUF, schema: proto }, { subject: 'node-proto' })
  const message = await registry.decode(await registry.encode(asProto.id, { item: 'fig', count: 3 }))
  expect(message.item === 'fig', 'Protobuf')
  try {
    const other = { ...line, fields: [{ name: 'item', type: 'int' }] }
    await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(other) }, options)
    expect(false, 'an incompatible schema')
  } catch (error) {
    expect(/incompatible/i.test(error.message), error.message)
  }
  console.log((await registry.encode(id, { item: 'fig', count: 3 })).toString('hex'))
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
