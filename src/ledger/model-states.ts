import type { Bytes } from '../core/units';
import { memoryAtRest, memoryOverTime } from './memory';
import { type BytesByCause, noBytes, type StepRecord } from './record';

/** A step's model states on the device: parameters and optimizer at rest; gradients as the optimizer finds them, when all of them are there. */
export function modelStatesOf(record: StepRecord): BytesByCause {
  const rest = memoryAtRest(record);
  const gradients = gradientsOf(record);
  const states = { ...noBytes() };
  for (const cause of ['param.shard', 'param.full', 'optimizer'] as const) states[cause] = rest[cause];
  for (const cause of ['grad.shard', 'grad.full'] as const) states[cause] = gradients[cause];
  return states;
}

/** Without a span of the optimizer or a curve up to it: the kind that is left of, at its fullest. */
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
