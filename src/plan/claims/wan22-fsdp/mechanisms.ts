import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { holdsOr, isNear, ofParts, onlyIf } from '../finding';
import {
  BARRIER,
  DELAYED_UPDATE,
  EVERY_FOURTH,
  EXPERT_UNITS,
  GATE_LOAD,
  SHARDED_CHECKPOINT,
} from './experiments';

/** The effects of the document's mechanisms in runs of two ranks. */
export const WAN_MECHANISMS: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.fsdp.experts'),
    expected: { verdict: 'holds partly', value: 0, within: 1e-5 },
    experiment: EXPERT_UNITS,
    check: (_, facts) => ({
      verdict: ofParts(
        fact(facts, 'lossDifference') < 1e-5,
        fact(facts, 'gathers') < fact(facts, 'gathersFullShard'),
        false,
      ),
      part: 'experts as units that keep their parameters after forward, and a replicated gate',
      measured: fact(facts, 'lossDifference'),
      unit: 'difference from the losses of DDP',
      by: 'the choice of experts overlaps nothing',
      why: `The losses are DDP's, with ${fact(facts, 'gathers')} all-gathers per step instead of ${fact(facts, 'gathersFullShard')} and ${fact(facts, 'wholeRatio').toFixed(2)} x as many whole parameters at the peak; an all-reduce sums each gate's gradient. A gate runs before its experts, so its choice overlaps nothing. Wan chooses its expert by the timestep, which is known before the step.`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const run = await job.train({
  model: { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32, experts: 2 }, data: 'synthetic', batch: 2,
  parallel: { wrap: 'moe', unitStrategies: [
    { modules: 'blocks.*.moe.experts.*', strategy: 'SHARD_GRAD_OP' }, { modules: 'blocks.*.moe.gate', strategy: 'NO_SHARD' },
  ] },
});
await run.step(3);
await run.units()`,
      },
    }),
  },
  {
    claim: claimOf('wan.ac.every4'),
    expected: { verdict: 'holds only if', value: 22.7, within: 1 },
    experiment: EVERY_FOURTH,
    check: (_, facts) => ({
      verdict: onlyIf(fact(facts, 'savedPercent') > 0 && fact(facts, 'lossDifference') === 0, false),
      condition: 'the wrapped layer is put back into the model',
      otherwise: 'nothing is checkpointed (wan.code.ac)',
      measured: fact(facts, 'savedPercent'),
      unit: '% of activations saved',
      by: '',
      why: `As a technique it works, with equal losses (difference ${fact(facts, 'lossDifference')}), and saves less than a quarter of the activations; recomputing every block saves ${Math.round(fact(facts, 'savedPercentFull'))}%. As printed, the loop assigns to its own variable only, so the model keeps its layers.`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const of = async (activationCheckpointing: 'full' | { everyNth: number } | null) => {
  const run = await job.train({ model: { kind: 'gpt', layers: 8, dim: 64, heads: 4, vocab: 256, seq: 32 }, data: 'synthetic', batch: 2, activationCheckpointing });
  await run.step(2);
  return run;
};
sl.compare({ none: await of(null), every4: await of({ everyNth: 4 }), full: await of('full') })`,
      },
    }),
  },
  {
    claim: claimOf('wan.gate.temperature'),
    expected: { verdict: 'off', value: 88.1, within: 2 },
    experiment: GATE_LOAD,
    check: (_, facts) => ({
      verdict: holdsOr(isNear(50, 100 * fact(facts, 'share'), 0.2), 'off'),
      measured: 100 * fact(facts, 'share'),
      unit: '% of rows to the preferred of two experts',
      by: 'the load does not become equal',
      why: `The gate runs as described, but its sample follows softmax(logits / temperature): with logits that differ by 2, ${Math.round(100 * fact(facts, 'share'))}% of the rows go to one expert at temperature 1, and ${Math.round(100 * fact(facts, 'shareAtTwo'))}% at temperature 2. An equal load needs a term in the loss; and Wan chooses its expert by timestep, not by a gate.`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 1 });
await job.on(0).run(({ tf, TemperatureGating }) => {
  const gate = new TemperatureGating(1, 2, { initTemp: 1 });
  const [w0, w1] = gate.gate.weight.tensor.dataSync(), [b0, b1] = gate.gate.bias.tensor.dataSync();
  const input = (2 - (b0 - b1)) / (w0 - w1);
  const rows = Array.from({ length: 4096 }, (_, i) => input * (1 + i * 1e-6));
  return tf.mean(gate.apply(tf.tensor2d(rows, [4096, 1])), 0).arraySync();
})`,
      },
    }),
  },
  {
    claim: claimOf('wan.checkpoint'),
    expected: { verdict: 'off', value: 0, within: 1e-6 },
    experiment: SHARDED_CHECKPOINT,
    check: (_, facts) => ({
      verdict: 'off',
      judged: true,
      follows: 'wan.code.checkpoint',
      measured: fact(facts, 'lossDifference'),
      unit: 'difference of the next losses if every rank saves',
      by: 'not safe: one rank saves alone, and waits for the others',
      why: 'Only rank 0 saves: it would store its own shards, and it hangs in a collective before that. If each rank saves its shards of model and optimizer, a load with another strategy works, and the run continues with the same losses.',
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const run = await job.train({ model: 'tiny', data: 'synthetic' });
await run.step(3);
await (await run.save('checkpoint')).done;
await run.step(3);
const other = await job.train({ model: 'tiny', data: 'synthetic', parallel: { strategy: 'SHARD_GRAD_OP' } }).load('checkpoint');
await other.step(3);
[run.losses.slice(3), other.losses]`,
      },
    }),
  },
  {
    claim: claimOf('wan.balance'),
    expected: { verdict: 'off', value: 0, within: 0 },
    experiment: BARRIER,
    check: (_, facts) => ({
      verdict: holdsOr(fact(facts, 'leftBeforeTheLast') > 0, 'off'),
      measured: fact(facts, 'leftBeforeTheLast'),
      unit: 'ranks that leave before the slowest arrives',
      by: 'a barrier does not balance the load',
      why: 'No rank leaves a barrier before the slowest rank arrives: with 40 ms and 120 ms of work the faster rank waits for 80 ms, as it does at every all-gather of FSDP. To move work to other ranks needs replicas of experts or expert parallelism; if all ranks use the same expert in a step, there is nothing to move.',
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
await job.on('all').run(({ rank, dist }) => {
  const milliseconds = () => Number(process.hrtime.bigint()) / 1e6;
  dist.barrier();
  const end = milliseconds() + (rank === 0 ? 40 : 120);
  while (milliseconds() < end);
  const arrived = milliseconds();
  dist.barrier();
  return { arrived, left: milliseconds() };
})`,
      },
    }),
  },
  {
    claim: claimOf('wan.optim.delayed'),
    expected: { verdict: 'off', value: 1, within: 0 },
    experiment: DELAYED_UPDATE,
    check: (_, facts) => ({
      verdict: holdsOr(fact(facts, 'wireRatio') < 0.95, 'off'),
      measured: fact(facts, 'wireRatio'),
      unit: 'x the bytes on the wire',
      by: 'no effect on communication',
      why: `Every step has the same collectives and bytes, because the update of a sharded optimizer is local. A delay adds a second set of gradient shards (x ${fact(facts, 'gradBytesRatio').toFixed(1)}); it can only hide an update on the CPU (ZeRO-Offload).`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const of = async (delayedUpdate: boolean) => {
  const run = await job.train({ model: 'tiny', data: 'synthetic', optimizer: { delayedUpdate } });
  await run.step(3);
  return run;
};
sl.compare({ now: await of(false), delayed: await of(true) }, 'timeline')`,
      },
    }),
  },
];
