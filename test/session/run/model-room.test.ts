import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { ShardlabError } from '../../../src/core/errors';
import { requireModelRoom } from '../../../src/session/run/model-room';

const PLENTY = (): number => 1e15;

function refusal(config: TrainConfigInput, world: number, available = PLENTY): ShardlabError {
  try {
    requireModelRoom(parseTrainConfig(config), world, available);
  } catch (error) {
    assert.ok(error instanceof ShardlabError && error.code === 'OUT_OF_MEMORY', String(error));
    return error;
  }
  return assert.fail('it has room');
}

test('a model that fits no rank is refused before ranks make its values, and the error says what can be done', () => {
  const { message, details } = refusal({ model: 'llama3-8b' }, 4);
  assert.match(
    message,
    /^model 'llama3-8b' has 8\.03 billion parameters: .* each of 4 ranks would hold 24\.1 GB under FULL_SHARD/,
  );
  assert.match(message, /heap of a rank's wasm engine holds at most 4\.29 GB/);
  assert.match(message, /sl\.plan\(config, \{ on: .A100-80G., gpus: 64 \}\)/);
  assert.match(message, /model: \{ kind: 'llama', layers: 2/);
  assert.equal(details.boundary, 'heap');
  assert.match(
    refusal({ model: 'wan2.2-a14b' }, 8).message,
    /28\.6 billion parameters.*\{ kind: 'dit', layers: 2/,
  );
  assert.match(
    refusal({ model: 'gpt2-xl', parallel: { strategy: 'NO_SHARD' } }, 8).message,
    /FULL_SHARD' }, which shards all of the model/,
  );
});

test('ranks that fit alone but not together are refused too', () => {
  const { message, details } = refusal({ model: 'llama3-8b' }, 32, () => 64e9);
  assert.match(
    message,
    /all 32 together would hold 96\.\d GB, but this machine or container has 64\.0 GB free/,
  );
  assert.equal(details.boundary, 'host');
  requireModelRoom(parseTrainConfig({ model: 'llama3-8b' }), 32, PLENTY);
});

test('the suggested smaller models pass the check', () => {
  for (const model of ['llama3-8b', 'wan2.2-a14b', 'gpt2-xl'] as const) {
    const [, text = ''] = /as model: (.*?)(?:, or use|\.$)/.exec(refusal({ model }, 1).message) ?? [];
    // As it would be written in a cell.
    const small: unknown = new Function(`return (${text})`)();
    requireModelRoom(parseTrainConfig({ model: small }), 1, () => 0);
  }
});

test('the check leaves out states on the host and states that the optimizer does not have', () => {
  const big = { model: 'gpt2-xl', parallel: { strategy: 'FULL_SHARD' } } as const;
  assert.match(refusal(big, 4).message, /would hold 4\.67 GB under/);
  requireModelRoom(parseTrainConfig({ ...big, offload: { optimizer: true } }), 4, PLENTY);
  requireModelRoom(parseTrainConfig({ ...big, optimizer: { kind: 'sgd' } }), 4, PLENTY);
});
