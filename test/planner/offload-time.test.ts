import assert from 'node:assert/strict';
import { test } from 'node:test';
import { predict } from '../../src/planner/predict';
import { offloadTime } from '../../src/planner/time/predict-time';
import { layoutOfLine } from '../support/batch-lines';

const request = {
  model: 'llama3-8b',
  hardware: 'A100-80G',
  gpus: 8,
  parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
  batch: { global: 16 },
};

test('states on the GPU cost no offload time', () => {
  assert.deepEqual(offloadTime(layoutOfLine(request), 8e9), { step: 0, copies: 0 });
});

test('a step on the host takes the time of its cores and of both directions of the link', () => {
  const layout = layoutOfLine({ ...request, offload: { optimizer: true } });
  const link = 31.5e9 * (256 / 282);
  const moves = (2 * 1e9 * 4) / link;
  assert.ok(Math.abs(offloadTime(layout, 8e9).step - (1e9 / 0.52e9 + moves)) < 1e-9);
  assert.equal(offloadTime(layout, 8e9).copies, 0);
});

test('shards on the host are copied twice per microbatch, hidden behind compute while it lasts', () => {
  const layout = layoutOfLine({ ...request, offload: { optimizer: true, parameters: true } });
  const link = 31.5e9 * (256 / 282);
  assert.ok(Math.abs(offloadTime(layout, 8e9).copies - (4 * 1e9 * 4) / link) < 1e-9);
  const seconds = (offload: object): number => predict(layoutOfLine({ ...request, offload })).time.seconds;
  const [none, optimizer, all] = [
    seconds({}),
    seconds({ optimizer: true }),
    seconds({ optimizer: true, parameters: true }),
  ];
  assert.ok(none < optimizer && optimizer <= all);
});

test('shards on the host are copied as often as they are gathered', () => {
  const copies = (parallel: object): number => {
    const offload = { optimizer: true, parameters: true };
    const layout = layoutOfLine({ ...request, parallel: { ...request.parallel, ...parallel }, offload });
    return offloadTime(layout, 8e9 / layout.pp).copies;
  };
  const link = 31.5e9 * (256 / 282);
  assert.ok(Math.abs(copies({ strategy: 'SHARD_GRAD_OP' }) - (2 * 1e9 * 4) / link) < 1e-9);
  assert.ok(Math.abs(copies({ pp: 2 }) - (1 * 1e9 * 4) / link) < 1e-9);
});
