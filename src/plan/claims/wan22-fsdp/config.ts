import { WarmupCosineLR } from '../../../optim/warmup-cosine-lr';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import { ofParts } from '../finding';
import { FSDP_CONFIG_RUN } from './experiments';
import { WAN_GIVEN } from './given';

/** The flags of the document's command that Wan2.2's generate.py has, and the number of all its flags. */
const PUBLISHED_FLAGS: readonly string[] = [
  '--task',
  '--ckpt_dir',
  '--dit_fsdp',
  '--t5_fsdp',
  '--ulysses_size',
];
const NUM_FLAGS = 13;

/** Which settings exist, and what they do. */
export const WAN_CONFIG: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.fsdp.config'),
    expected: { verdict: 'holds partly', value: 17, within: 0 },
    experiment: FSDP_CONFIG_RUN,
    check: (_, facts) => ({
      verdict: ofParts(fact(facts, 'gathers') > fact(facts, 'reductions'), false),
      part: 'FULL_SHARD by block, bf16 with fp32 reduction, prefetch',
      measured: fact(facts, 'gathers'),
      unit: 'all-gathers per step (8 blocks)',
      by: 'checkpoint_wrapper and NO_CHECKPOINT do not exist in FSDP',
      why: `FSDP has no argument checkpoint_wrapper, CheckpointImpl has no NO_CHECKPOINT, and "no checkpoint" would contradict checkpointing every 4th layer. The other settings run: ${fact(facts, 'gathers')} all-gathers in bf16 and ${fact(facts, 'reductions')} reduce-scatters in fp32 for 8 blocks (81 and 41 for 40 blocks).`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const run = await job.train({
  model: { kind: 'gpt', layers: 8, dim: 64, heads: 4, vocab: 256, seq: 32 }, data: 'synthetic',
  parallel: { strategy: 'FULL_SHARD', wrap: { layerCls: ['Block'] }, forwardPrefetch: true },
  mixedPrecision: { paramDtype: 'bf16', bufferDtype: 'bf16', reduceDtype: 'fp32' },
});
await run.step(2);
run.comm()`,
      },
    }),
  },
  {
    claim: claimOf('wan.ulysses.config'),
    expected: { verdict: 'holds partly', value: 4, within: 0 },
    check: () => {
      const { gpus, grad_accum } = WAN_GIVEN;
      return {
        verdict: 'holds partly',
        judged: true,
        part: 'batch, accumulation, clipping and type of communication are keys of DeepSpeed',
        predicted: 256 / (grad_accum * gpus),
        unit: 'samples per GPU and microbatch',
        by: 'it has no key "ulysses", and FSDP reads none of them',
        why: 'DeepSpeed has no key "ulysses": it treats all 8 ranks as data-parallel and computes 256 / 8 / 8 = 4 samples. Sequence parallelism needs a process group (mpu) and an attention wrapper; only then is the microbatch 32. The other four keys exist.',
        evidence: { kind: 'formula', source: '256 / (8 * 8)' },
      };
    },
  },
  {
    claim: claimOf('wan.launch'),
    expected: { verdict: 'holds partly' },
    check: () => ({
      verdict: ofParts(PUBLISHED_FLAGS.length > 0, PUBLISHED_FLAGS.length >= NUM_FLAGS),
      part: `torchrun, and ${PUBLISHED_FLAGS.length} of ${NUM_FLAGS} flags, which generate.py has`,
      unit: null,
      by: `there is no train.py, and no script has the other ${NUM_FLAGS - PUBLISHED_FLAGS.length} flags`,
      why: `Wan2.2 publishes inference: generate.py knows ${PUBLISHED_FLAGS.join(', ')}, and asserts that ulysses_size is the world size and divides 40 heads (8 does). It has no train.py and no flags for training.`,
      evidence: { kind: 'formula', source: "sl.lookup('torchrun train.py …').inTheOriginal" },
    }),
  },
  {
    claim: claimOf('wan.optim'),
    expected: { verdict: 'holds partly', value: 2.5e-6 },
    check: () => {
      const schedule = new WarmupCosineLR(
        { lr: 2.5e-5 },
        { warmupSteps: 10_000, maxSteps: 150_000, etaMin: 2.5e-6 },
      );
      const middle = schedule.lrAt(80_000);
      return {
        verdict: ofParts(schedule.lrAt(10_000) === 2.5e-5, false),
        part: "AdamW's arguments, the schedule's values and clipping",
        predicted: schedule.lrAt(150_000),
        unit: 'learning rate at the end',
        by: 'neither library has the scheduler with these arguments',
        why: `The values fit together: 2.5e-5 at step 10,000, ${middle.toExponential(3)} at 80,000, 2.5e-6 at 150,000. WarmupCosineLR is DeepSpeed's, with total_num_steps and cos_min_ratio in place of max_steps and eta_min; torch has none. "fused" changes speed, not values.`,
        evidence: {
          kind: 'formula',
          source: `const [lr, etaMin, warmup, max, n] = [2.5e-5, 2.5e-6, 10_000, 150_000, 150_000];
etaMin + (lr - etaMin) * 0.5 * (1 + Math.cos(Math.PI * (n - warmup) / (max - warmup)))`,
        },
      };
    },
  },
  {
    claim: claimOf('wan.env'),
    expected: { verdict: 'holds partly' },
    check: () => ({
      verdict: 'holds partly',
      judged: true,
      part: 'every piece exists, and the server fits together',
      unit: null,
      by: 'DeepSpeed 0.12.6 does not import beside PyTorch 2.4.0, which comes with NCCL 2.20.5',
      why: 'The wheel of PyTorch 2.4.0 requires nvidia-nccl-cu12 2.20.5 (the command asks the package index); 2.18.1 needs a build from source. DeepSpeed 0.12.6 does not import beside PyTorch 2.4, which removed two names that it imports (deepspeedai/DeepSpeed, issues 5337 and 5603). The hardware fits together: boards for A100 with two Xeon 8360Y use DDR4-3200, and Wan2.2 requires torch 2.4.0 or newer.',
      evidence: {
        kind: 'formula',
        source:
          "$ pip install --dry-run --quiet --no-deps --ignore-installed --report - torch==2.4.0 | grep -o 'nvidia-nccl-cu12[^;]*'",
      },
    }),
  },
];
