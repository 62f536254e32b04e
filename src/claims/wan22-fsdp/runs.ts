import type { TrainConfigInput } from '../../config';
import type { CommCause } from '../../core';
import { logicalAtPeak, memoryAtRest } from '../../ledger';
import { dryRun } from '../../planner';
import type { Experiment } from '../entry';
import type { RunFacts } from '../lab';

const PLACE = { ranks: 2 } as const;

/** A GPT of eight small blocks: enough to checkpoint every 4th, and for several units. */
const GPT: TrainConfigInput = {
  model: { kind: 'gpt', layers: 8, dim: 64, heads: 4, vocab: 256, seq: 32 },
  data: 'synthetic',
  batch: 2,
};
/** The same GPT with two blocks, for experiments in which the number of blocks does not matter. */
const SHORT: TrainConfigInput = {
  ...GPT,
  model: { kind: 'gpt', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32 },
};
/** Two experts per block, as in the document. */
const TWO_EXPERTS: TrainConfigInput = {
  ...GPT,
  model: { kind: 'moe', layers: 2, dim: 64, heads: 4, vocab: 256, seq: 32, experts: 2 },
};

/** bf16 parameters with fp32 reduction, compared with fp32 for both. */
export const BF16_RUNS: Experiment = {
  name: 'bf16 parameters',
  async run(lab) {
    const place = { ...PLACE, steps: 2 };
    const fp32 = await lab.train(SHORT, place);
    const bf16 = await lab.train(
      { ...SHORT, mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' } },
      place,
    );
    return {
      gatheredRatio: bf16.logicalAtPeak['param.full'] / fp32.atPeak['param.full'],
      shardsRatio: bf16.atRest['param.shard'] / fp32.atRest['param.shard'],
      wireRatio: wireBytes(bf16, 'param') / wireBytes(fp32, 'param'),
    };
  },
};

/** The document's FSDP settings without the two settings that do not exist. */
export const FSDP_CONFIG_RUN: Experiment = {
  name: 'FSDP settings',
  async run(lab) {
    const facts = await lab.train(
      {
        ...GPT,
        parallel: { strategy: 'FULL_SHARD', wrap: { layerCls: ['Block'] }, forwardPrefetch: true },
        mixedPrecision: { paramDtype: 'bf16', bufferDtype: 'bf16', reduceDtype: 'fp32' },
      },
      { ...PLACE, steps: 2 },
    );
    return {
      gathers: counted(facts, 'allGather', 'param'),
      reductions: counted(facts, 'reduceScatter', 'grad'),
      paramBytesOnWire: wireBytes(facts, 'param') / facts.numParams,
      gradBytesOnWire: wireBytes(facts, 'grad') / facts.numParams,
    };
  },
};

/** Experts as units with SHARD_GRAD_OP and a replicated gate, compared with FULL_SHARD of the same units. */
export const EXPERT_UNITS: Experiment = {
  name: 'experts as units',
  async run(lab) {
    const place = { ...PLACE, steps: 2 };
    const asDocumented = await lab.train(
      {
        ...TWO_EXPERTS,
        parallel: {
          wrap: 'moe',
          strategy: 'FULL_SHARD',
          unitStrategies: [
            { modules: 'blocks.*.moe.experts.*', strategy: 'SHARD_GRAD_OP' },
            { modules: 'blocks.*.moe.gate', strategy: 'NO_SHARD' },
          ],
        },
      },
      place,
    );
    const full = await lab.train(
      { ...TWO_EXPERTS, parallel: { wrap: 'moe', strategy: 'FULL_SHARD' } },
      place,
    );
    const whole = await lab.train({ ...TWO_EXPERTS, parallel: { strategy: 'NO_SHARD' } }, place);
    return {
      lossDifference: largestDifference(asDocumented.losses, whole.losses),
      gathers: counted(asDocumented, 'allGather', 'param'),
      gathersFullShard: counted(full, 'allGather', 'param'),
      gateReductions: counted(asDocumented, 'allReduce', 'grad'),
      wholeRatio: asDocumented.peakByCause['param.full'] / full.peakByCause['param.full'],
    };
  },
};

/** Two ranks send the gradients of all experts, or (sparse) only the gradients of the experts that some rank used. */
export const SPARSE_EXPERTS: Experiment = {
  name: 'sparse expert gradients',
  async run(lab) {
    const five: TrainConfigInput = {
      model: { kind: 'moe', layers: 1, dim: 64, heads: 4, vocab: 16, seq: 1, experts: 5 },
      data: 'synthetic',
      batch: 1,
    };
    const place = { ...PLACE, steps: 1 };
    const of = (sparseGradients: boolean) =>
      lab.train({ ...five, parallel: { strategy: 'NO_SHARD', sparseGradients } }, place);
    const dense = await of(false);
    const sparse = await of(true);
    return {
      // Other gradients are sent whole in both runs. At two ranks an all-reduce receives as many bytes as it reduces.
      sparseRatio: (wireBytes(sparse, 'grad') - wireBytes(dense, 'grad') + EXPERT_BYTES) / EXPERT_BYTES,
    };
  },
};

/** Bytes of five feed-forward layers of dim 64 (d·4d + 4d + 4d·d + d elements each) in fp32. */
const EXPERT_BYTES = 5 * 4 * (8 * 64 * 64 + 5 * 64);

/** Recompute of no block, every 4th block and every block. */
export const EVERY_FOURTH: Experiment = {
  name: 'every 4th block',
  async run(lab) {
    const place = { ...PLACE, steps: 2 };
    const none = await lab.train(GPT, place);
    const fourth = await lab.train({ ...GPT, activationCheckpointing: { everyNth: 4 } }, place);
    const full = await lab.train({ ...GPT, activationCheckpointing: 'full' }, place);
    const saved = (facts: RunFacts): number =>
      100 * (1 - facts.peakByCause.activation / none.peakByCause.activation);
    return {
      savedPercent: saved(fourth),
      savedPercentFull: saved(full),
      lossDifference: largestDifference(fourth.losses, none.losses),
    };
  },
};

/** SHARD_GRAD_OP loads a checkpoint of FULL_SHARD; its losses should be those of the run that continues without a load. */
export const SHARDED_CHECKPOINT: Experiment = {
  name: 'sharded checkpoint',
  async run(lab) {
    return lab.withRun(SHORT, PLACE, async (run, folder) => {
      await run.step(2);
      await run.save(`${folder}/checkpoint`);
      await run.step(2);
      const straight = run.facts().losses.slice(-2);
      return lab.withRun({ ...SHORT, parallel: { strategy: 'SHARD_GRAD_OP' } }, PLACE, async (resumedRun) => {
        await resumedRun.load(`${folder}/checkpoint`);
        await resumedRun.step(2);
        return { lossDifference: largestDifference(resumedRun.facts().losses.slice(-2), straight) };
      });
    });
  },
};

/** How a gate distributes rows to two experts if their logits differ by 2. */
export const GATE_LOAD: Experiment = {
  name: "a gate's load",
  async run(lab) {
    const [shares = []] = await lab.inRanks(PLACE, ({ tf, TemperatureGating }) =>
      [1, 2].map((initTemp) => {
        const gate = new TemperatureGating(1, 2, { initTemp });
        const [w0 = 0, w1 = 0] = gate.gate.weight.tensor.dataSync();
        const [b0 = 0, b1 = 0] = gate.gate.bias.tensor.dataSync();
        // The rows differ a little, so that each row gets different noise; the two logits of each row differ by 2.
        const input = (2 - (b0 - b1)) / (w0 - w1);
        const rows = Array.from({ length: 4096 }, (_, i) => input * (1 + i * 1e-6));
        const chosen = gate.apply(tf.tensor2d(rows, [4096, 1]));
        return tf.mean(chosen, 0).dataSync()[0] ?? Number.NaN;
      }),
    );
    const [share = Number.NaN, shareAtTwo = Number.NaN] = shares;
    return { share, shareAtTwo };
  },
};

/** The effect of a barrier if one rank is slower. */
export const BARRIER: Experiment = {
  name: 'a barrier',
  async run(lab) {
    const times = await lab.inRanks(PLACE, ({ rank, dist }) => {
      const milliseconds = (): number => Number(process.hrtime.bigint()) / 1e6;
      dist.barrier();
      const end = milliseconds() + (rank === 0 ? 40 : 120);
      while (milliseconds() < end);
      const arrived = milliseconds();
      dist.barrier();
      return { arrived, left: milliseconds() };
    });
    const last = Math.max(...times.map(({ arrived }) => arrived));
    return { leftBeforeTheLast: times.filter(({ left }) => left < last).length };
  },
};

/** Moments of one byte per element, compared with fp32 moments. */
export const EIGHT_BIT: Experiment = {
  name: '8-bit AdamW',
  async run(lab) {
    const place = { ...PLACE, steps: 8 };
    const of = (kind: 'adamW' | 'adamW8bit') => lab.train({ ...SHORT, optimizer: { kind } }, place);
    const fp32 = await of('adamW');
    const eight = await of('adamW8bit');
    return {
      bytesRatio: eight.atRest.optimizer / fp32.atRest.optimizer,
      lossRatio: (eight.losses.at(-1) ?? Number.NaN) / (fp32.losses.at(-1) ?? Number.NaN),
    };
  },
};

/** Updates with the previous step's gradients, compared with this step's gradients. */
export const DELAYED_UPDATE: Experiment = {
  name: 'delayed update',
  async run(lab) {
    const place = { ...PLACE, steps: 3 };
    const now = await lab.train(SHORT, place);
    const later = await lab.train({ ...SHORT, optimizer: { delayedUpdate: true } }, place);
    return {
      wireRatio: wireBytes(later) / wireBytes(now),
      collectivesRatio: counted(later) / counted(now),
      gradBytesRatio: later.atRest['grad.shard'] / now.atRest['grad.shard'],
    };
  },
};

function wireBytes({ collectives }: RunFacts, cause?: CommCause): number {
  return collectives.reduce(
    (sum, collective) => sum + (cause === undefined || collective.cause === cause ? collective.wireBytes : 0),
    0,
  );
}

function counted({ collectives }: RunFacts, op?: string, cause?: CommCause): number {
  return collectives.reduce((sum, collective) => {
    const isMeant =
      (op === undefined || collective.op === op) && (cause === undefined || collective.cause === cause);
    return sum + (isMeant ? collective.count : 0);
  }, 0);
}

function largestDifference(some: readonly number[], others: readonly number[]): number {
  return Math.max(...some.map((value, i) => Math.abs(value - (others[i] ?? Number.NaN))));
}

/** A dry run of the published model on 8 ranks: 4 samples of one 832 x 480 frame per GPU, every 4th block checkpointed. */
export const WAN_DRY_RUN: Experiment = {
  name: 'dry run of Wan',
  async run() {
    const { records } = dryRun(WAN_STEP, { world: 8, curve: false });
    const [first, last] = [records[0], records.at(-1)];
    if (first === undefined || last === undefined) return {};
    const rest = memoryAtRest(last);
    return {
      paramShardGB: rest['param.shard'] / 1e9,
      optimizerGB: rest.optimizer / 1e9,
      activationsGB: logicalAtPeak(first).activation / 1e9,
    };
  },
};

const WAN_STEP: TrainConfigInput = {
  model: { like: 'wan2.2-a14b', latent: [1, 60, 104] },
  batch: 4,
  mixedPrecision: { paramDtype: 'bf16', reduceDtype: 'fp32' },
  activationCheckpointing: { everyNth: 4 },
};
