import type { Bytes } from '../core';
import { memoryAtRest, memoryOverTime } from './memory';
import { type BytesByCause, noBytes, type StepRecord } from './record';

/** Returns the device bytes of a step's model states: parameters and optimizer at rest, gradients when the optimizer begins. */
export function modelStatesOf(record: StepRecord): BytesByCause {
  const rest = memoryAtRest(record);
  const gradients = gradientsOf(record);
  const states = { ...noBytes() };
  for (const cause of ['param.shard', 'param.full', 'optimizer'] as const) states[cause] = rest[cause];
  for (const cause of ['grad.shard', 'grad.full'] as const) states[cause] = gradients[cause];
  return states;
}

/**
 * Returns the bytes of gradients when the optimizer begins. If the record lacks the optimizer's span or a curve, returns the
 * maximum bytes of sharded gradients; if there are no sharded gradients, the maximum bytes of whole gradients.
 */
function gradientsOf(record: StepRecord): Readonly<Record<'grad.shard' | 'grad.full', Bytes>> {
  const { byCause, seconds } = memoryOverTime(record);
  const optimizer = record.spans.find(({ name }) => name === 'optimizer');
  if (optimizer !== undefined && record.memory.curve !== null) {
    const at = seconds.findLastIndex((time) => time <= optimizer.start - record.start);
    return { 'grad.shard': byCause['grad.shard'][at] ?? 0, 'grad.full': byCause['grad.full'][at] ?? 0 };
  }
  const shards = Math.max(...byCause['grad.shard']);
  return { 'grad.shard': shards, 'grad.full': shards > 0 ? 0 : Math.max(...byCause['grad.full']) };
}
