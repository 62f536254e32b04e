import { GPUS } from '../../hardware';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { factorOff, pointsOff } from '../finding';
import type { PlanLab } from '../lab';
import { STATE_BYTES_PER_PARAMETER } from '../model-states';
import { changeCell, planCell } from '../plan-cell';
import { BENCHMARK, benchmarkRequest, CARD, DOCUMENTED, GB, GIB, STATES } from './benchmark';

/** The benchmark's memory: under DDP 72 GB used and 10 free, under FSDP 28 on all GPUs and 3.5 per GPU. */
export const GUIDE_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.mem.ddp'),
    expected: { verdict: 'not checkable here', value: 79, within: 5 },
    check(lab) {
      const micro = largestBatch(lab);
      const { peak } = lab.memory(benchmarkRequest('NO_SHARD', micro));
      return {
        verdict: 'not checkable here',
        predicted: { value: (peak.value * GIB) / GB, low: STATES.ddp, high: CARD },
        unit: 'GB',
        by: '',
        why:
          `States are ${STATES.ddp} GB on every GPU; the other ${DOCUMENTED.ddp - STATES.ddp} GB are activations, and the batch ` +
          `is not stated. GPT-2 XL with 1024 tokens per sequence fills the GPU at ${micro} sequences.`,
        evidence: { kind: 'prediction', source: planCell(benchmarkRequest('NO_SHARD', micro)) },
        needs: '8 x A100-80G, and the batch and sequence length of the benchmark',
        command:
          'torchrun --nproc_per_node 8 transformers/examples/pytorch/language-modeling/run_clm.py --model_name_or_path gpt2-xl ' +
          `--dataset_name wikitext --dataset_config_name wikitext-2-raw-v1 --do_train --block_size 1024 --bf16 ` +
          `--per_device_train_batch_size ${micro} --max_steps 20 --skip_memory_metrics False --output_dir out`,
      };
    },
  },
  {
    claim: claimOf('guide.mem.ddp_free'),
    expected: { verdict: 'contradicts itself', value: 8 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: CARD - DOCUMENTED.ddp,
      unit: 'GB',
      by: `${DOCUMENTED.ddp} + ${DOCUMENTED.free} = ${DOCUMENTED.ddp + DOCUMENTED.free} GB on a GPU of ${CARD}`,
      why: `A GPU of ${CARD} GB with ${DOCUMENTED.ddp} in use has ${CARD - DOCUMENTED.ddp} left, minus the memory of CUDA and NCCL.`,
      evidence: { kind: 'formula', source: '80 - 72' },
    }),
  },
  {
    claim: claimOf('guide.mem.fsdp_total'),
    expected: { verdict: 'contradicts itself', value: 24 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: STATES.fsdp * BENCHMARK.gpus,
      unit: 'GB',
      by: `the sum of 8 GPUs (8 x 3.5) is compared with the ${DOCUMENTED.ddp} of one GPU`,
      why:
        `${DOCUMENTED.fsdpTotal} = 8 x ${DOCUMENTED.fsdpCard} is the sum over all GPUs, but the ${DOCUMENTED.ddp} of DDP is for one GPU (10 are ` +
        `free on each). For one GPU the two numbers are ${DOCUMENTED.ddp} and ${DOCUMENTED.fsdpCard}. The states alone are ` +
        `${STATES.fsdp * BENCHMARK.gpus} over all GPUs.`,
      evidence: { kind: 'formula', source: '((4 + 4 + 8) * 1.5e9) / 1e9' },
    }),
  },
  {
    claim: claimOf('guide.mem.fsdp_card'),
    expected: { verdict: 'off', value: 51 },
    check() {
      const card = DOCUMENTED.ddp - STATES.ddp + STATES.fsdp;
      return {
        verdict: 'off',
        predicted: card,
        unit: 'GB',
        by: factorOff(DOCUMENTED.fsdpCard, card),
        why:
          `FSDP turns ${STATES.ddp} GB of states into ${STATES.fsdp}; the other ${DOCUMENTED.ddp - STATES.ddp} of DDP's ` +
          `${DOCUMENTED.ddp} GB are activations and buffers, which FSDP does not shard. 3.5 GB per GPU is possible only with a much smaller batch.`,
        evidence: {
          kind: 'formula',
          source: 'const states = ((4 + 4 + 8) * 1.5e9) / 1e9;\n72 - states + states / 8',
        },
      };
    },
  },
];

/** Returns the largest batch per GPU with which GPT-2 XL fits under DDP. */
function largestBatch(lab: PlanLab): number {
  const fits = (micro: number): boolean =>
    lab.memory(benchmarkRequest('NO_SHARD', micro)).peak.value * GIB <= CARD * GB;
  let micro = 1;
  while (micro < 256 && fits(micro + 1)) micro += 1;
  return micro;
}

/** How large a model can be, and how much memory sharding saves per GPU. */
export const GUIDE_LIMITS: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.limit.10b'),
    expected: { verdict: 'off', value: 5e9 },
    check() {
      const limit = (GPUS['A100-80G'].memoryGB * GB) / STATE_BYTES_PER_PARAMETER;
      const largest = (GPUS['H200-141G'].memoryGB * GB) / STATE_BYTES_PER_PARAMETER;
      return {
        verdict: 'off',
        predicted: limit,
        unit: 'parameters',
        by: factorOff(1e10, limit),
        why:
          'DDP stores everything on every GPU, so the memory of one GPU is the limit: 16 bytes per parameter fill 80 GB at 5B, ' +
          `and 141 GB at ${(largest / 1e9).toPrecision(2)}B, before any activation.`,
        evidence: { kind: 'formula', source: '80e9 / (4 + 4 + 8)' },
      };
    },
  },
  {
    claim: claimOf('guide.mem.eighth'),
    expected: { verdict: 'contradicts itself', value: 87.5 },
    check: () => ({
      verdict: 'contradicts itself',
      predicted: 100 * (1 - STATES.fsdp / STATES.ddp),
      unit: '%',
      by: '12.5 points too low',
      why: 'A GPU that stores 1/8 saves 7/8, which is 87.5%; a saving of 75% needs 4 GPUs.',
      evidence: { kind: 'formula', source: '100 * (1 - 1 / 8)' },
    }),
  },
  {
    claim: claimOf('guide.tune.amp_memory'),
    expected: { verdict: 'off', value: -13, within: 5 },
    check(lab) {
      const half: PlanRequestInput = { ...benchmarkRequest('NO_SHARD', 4), precision: 'fp16' };
      const [after, before] = [lab.memory(half), lab.memory({ ...half, precision: 'fp32' })];
      const change = 100 * (after.peakBytes / before.peakBytes - 1);
      return {
        verdict: change > -45 ? 'off' : 'confirmed',
        predicted: change,
        unit: '%',
        by: pointsOff(50, -change),
        why:
          'Activations halve, but model states do not: 4 + 4 + 8 bytes per parameter become 2 + 2 + 12 with a master copy, or do not change ' +
          `under autocast. GPT-2 XL at 4 x 1024 tokens per GPU: ${(before.peakBytes / GB).toFixed(0)} GB become ` +
          `${(after.peakBytes / GB).toFixed(0)}.`,
        evidence: {
          kind: 'prediction',
          source: changeCell(half, { ...half, precision: 'fp32' }, 'prediction.memory.peakBytes'),
        },
      };
    },
  },
];
