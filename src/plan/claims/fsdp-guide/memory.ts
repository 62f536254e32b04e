import { GPUS } from '../../hardware';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr, isNear, ofParts, onlyIf } from '../finding';
import type { PlanLab } from '../lab';
import { STATE_BYTES_PER_PARAMETER } from '../model-states';
import { changeCell } from '../plan-cell';
import { BENCHMARK, benchmarkRequest, CARD, DOCUMENTED, GB, GIB, STATES } from './benchmark';

/** The benchmark's memory: under DDP 72 GB used and 10 free, under FSDP 28 on all GPUs and 3.5 per GPU. */
export const GUIDE_MEMORY: readonly ClaimEntry[] = [
  {
    claim: claimOf('guide.mem.ddp'),
    expected: { verdict: 'contradicts itself', value: 192 },
    check(lab) {
      const micro = largestBatch(lab);
      const total = STATES.ddp * BENCHMARK.gpus;
      return {
        verdict: holdsOr(DOCUMENTED.ddp >= total, 'contradicts itself'),
        predicted: total,
        unit: 'GB of states on 8 GPUs',
        by: `as the sum of 8 GPUs, as FSDP's ${DOCUMENTED.fsdpTotal} GB in the next line, it is less than the states: ${total} GB`,
        why: `DDP stores ${STATES.ddp} GB of states on every GPU. ${DOCUMENTED.ddp} GB per GPU is possible (GPT-2 XL with 1024 tokens per sequence fills the GPU at ${micro} sequences), but then it is not the quantity with which ${DOCUMENTED.fsdpTotal} GB is compared, and 10 GB are not what is left (guide.mem.ddp_free).`,
        evidence: { kind: 'formula', source: '(8 * (4 + 4 + 8) * 1.5e9) / 1e9' },
      };
    },
  },
  {
    claim: claimOf('guide.mem.ddp_free'),
    expected: { verdict: 'contradicts itself', value: 8 },
    check: () => ({
      verdict: holdsOr(DOCUMENTED.ddp + DOCUMENTED.free <= CARD, 'contradicts itself'),
      predicted: CARD - DOCUMENTED.ddp,
      unit: 'GB',
      by: `${DOCUMENTED.ddp} + ${DOCUMENTED.free} = ${DOCUMENTED.ddp + DOCUMENTED.free} GB on a GPU of ${CARD}`,
      why: `A GPU of ${CARD} GB with ${DOCUMENTED.ddp} in use has ${CARD - DOCUMENTED.ddp} left, minus the memory of CUDA and NCCL.`,
      evidence: { kind: 'formula', source: '80 - 72' },
    }),
  },
  {
    claim: claimOf('guide.mem.fsdp_total'),
    expected: { verdict: 'holds only if', value: 24 },
    check: (lab) => ({
      ...leavesRoom(lab),
      predicted: STATES.fsdp * BENCHMARK.gpus,
      unit: 'GB',
      by: '',
      why: `${DOCUMENTED.fsdpTotal} = 8 x ${DOCUMENTED.fsdpCard} is the sum over all GPUs, of which states are ${STATES.fsdp * BENCHMARK.gpus}. The ${DOCUMENTED.ddp} GB of DDP beside it can only be for one GPU (guide.mem.ddp); for one GPU the two numbers are ${DOCUMENTED.ddp} and ${DOCUMENTED.fsdpCard}.`,
      evidence: { kind: 'formula', source: '((4 + 4 + 8) * 1.5e9) / 1e9' },
    }),
  },
  {
    claim: claimOf('guide.mem.fsdp_card'),
    expected: { verdict: 'holds only if', value: 3 },
    check: (lab) => ({
      ...leavesRoom(lab),
      follows: 'guide.mem.fsdp_total',
      predicted: STATES.fsdp,
      unit: 'GB of states',
      by: '',
      why:
        `FSDP turns ${STATES.ddp} GB of states into ${STATES.fsdp} per GPU. Activations and gathered units are not sharded and come on top: with ` +
        `what DDP's ${DOCUMENTED.ddp} GB leave for them, a GPU would need ${DOCUMENTED.ddp - STATES.ddp + STATES.fsdp} GB.`,
      evidence: { kind: 'formula', source: '((4 + 4 + 8) * 1.5e9) / 8 / 1e9' },
    }),
  },
];

/** Returns the verdict on FSDP's memory: whether the states leave room for the rest, and whether one sequence fits. */
function leavesRoom(lab: PlanLab) {
  const room = DOCUMENTED.fsdpCard - STATES.fsdp;
  const peak = (seq: number): number =>
    (lab.memory({ ...benchmarkRequest('FULL_SHARD', 1), seq }).peak.value * GIB) / GB;
  const one = peak(1024);
  return {
    verdict: onlyIf(room > 0, one <= DOCUMENTED.fsdpCard),
    condition: `activations and gathered units take at most ${room} GB per GPU`,
    otherwise: `GPT-2 XL needs ${peak(32).toFixed(1)} GB for few tokens, and ${one.toFixed(1)} for one sequence of 1024`,
  };
}

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
    expected: { verdict: 'holds partly', value: 6, within: 0 },
    check() {
      const limit = (GPUS['A100-80G'].memoryGB * GB) / STATE_BYTES_PER_PARAMETER;
      const all = Object.values(GPUS);
      const states = (1e10 * STATE_BYTES_PER_PARAMETER) / GB;
      const tooSmall = all.filter(({ memoryGB }) => memoryGB < states);
      const sharded = states / BENCHMARK.gpus;
      return {
        verdict: ofParts(tooSmall.length > all.length / 2, sharded > GPUS['A100-80G'].memoryGB),
        part: `no GPU but one of the ${all.length} known here holds 160 GB of states`,
        predicted: tooSmall.length,
        unit: 'GPUs that cannot hold it',
        by: 'more machines do not help DDP; sharded, one machine is enough',
        why: `DDP stores 16 bytes per parameter on every GPU, also on the GPUs of other machines: 160 GB at 10B, more than ${tooSmall.length} of ${all.length} GPUs have (80 GB are full at ${limit / 1e9}B). Sharded over the 8 GPUs of one machine it is ${sharded} GB per GPU.`,
        evidence: {
          kind: 'formula',
          source: 'Object.values(sl.gpus).filter(({ memoryGB }) => memoryGB < 160).length',
        },
      };
    },
  },
  {
    claim: claimOf('guide.mem.eighth'),
    expected: { verdict: 'contradicts itself', value: 87.5 },
    check: () => ({
      verdict: holdsOr(isNear(75, 100 * (1 - STATES.fsdp / STATES.ddp)), 'contradicts itself'),
      predicted: 100 * (1 - STATES.fsdp / STATES.ddp),
      unit: '%',
      by: '12.5 points too low',
      why: 'A GPU that stores 1/8 saves 7/8, which is 87.5%; a saving of 75% needs 4 GPUs.',
      evidence: { kind: 'formula', source: '100 * (1 - 1 / 8)' },
    }),
  },
  {
    claim: claimOf('guide.tune.amp_memory'),
    expected: { verdict: 'holds only if', value: -13, within: 5 },
    check(lab) {
      const half: PlanRequestInput = { ...benchmarkRequest('NO_SHARD', 4), precision: 'fp16' };
      const [after, before] = [lab.memory(half), lab.memory({ ...half, precision: 'fp32' })];
      const change = 100 * (after.peakBytes / before.peakBytes - 1);
      const activations = 100 * (after.activations / before.activations - 1);
      return {
        verdict: onlyIf(isNear(-50, activations, 0.15), isNear(-50, change, 0.15)),
        condition: 'activations are nearly all of the memory',
        otherwise: `GPT-2 XL at 4 x 1024 tokens per GPU saves ${(-change).toFixed(0)}%`,
        predicted: change,
        unit: '%',
        by: '',
        why: `Activations fall by ${(-activations).toFixed(0)}%, but model states do not: 4 + 4 + 8 bytes per parameter become 2 + 2 + 12 with a master copy, or do not change under autocast. GPT-2 XL at 4 x 1024 tokens per GPU: ${(before.peakBytes / GB).toFixed(0)} GB become ${(after.peakBytes / GB).toFixed(0)}.`,
        evidence: {
          kind: 'prediction',
          source: changeCell(half, { ...half, precision: 'fp32' }, 'prediction.memory.peakBytes'),
        },
      };
    },
  },
];
