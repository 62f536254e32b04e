import { parseTrainConfig, type TrainConfigInput } from '../../../config/train-config';
import type { Bytes } from '../../../core/units';
import { totalBytes } from '../../../ledger/memory';
import { fromFairScale } from '../../../parallel/fsdp1/fair-scale';
import { forecastRun } from '../../dry-run/forecast';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import type { ClaimEntry } from '../entry';
import { holdsOr } from '../finding';
import { bytesOf, modelStates, volumeAgainstDdp } from '../model-states';
import { planCell } from '../plan-cell';

const GPUS = 8;
const GIB_PER_GB = 2 ** 30 / 1e9;

/** Wan2.2's two experts, sharded over four nodes by PyTorch's own FSDP. */
const WAN_SHARDED: PlanRequestInput = {
  model: 'wan2.2-a14b',
  hardware: 'A100-80G',
  gpus: 4 * GPUS,
  parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
  recompute: 'full',
};

/** What stage 3 shards, sends and offloads, and its alternatives. */
export const WAN_DEEPSPEED_ZERO3: readonly ClaimEntry[] = [
  {
    claim: claimOf('zero3.shards'),
    expected: { verdict: 'holds', value: 2 },
    check() {
      const states = modelStates(1e9, 'FULL_SHARD', GPUS);
      const sharded = bytesOf(states, ['param.shard', 'grad.shard', 'optimizer']);
      return {
        verdict: holdsOr(sharded === states.stateBytes, 'off'),
        predicted: states.stateBytes / 1e9,
        unit: 'bytes per parameter on 8 GPUs',
        by: '',
        why: 'Between steps nothing is whole: 16 bytes per parameter become 16/N. A unit’s parameters are whole while it computes.',
        evidence: { kind: 'formula', source: '(4 + 4 + 8) / 8' },
      };
    },
  },
  {
    claim: claimOf('zero3.offload'),
    expected: { verdict: 'holds', value: -50 },
    check() {
      const [kept, optimizer, all] = [
        onDevice({}),
        onDevice({ optimizer: true }),
        onDevice({ parameters: true }),
      ];
      return {
        verdict: holdsOr(all < optimizer && optimizer < kept, 'off'),
        predicted: 100 * (optimizer / kept - 1),
        unit: '% of states on the GPU',
        by: '',
        why:
          `Here offload_optimizer moves Adam's moments, half of the states of stage 3, to the CPU (in DeepSpeed it also moves float32 master weights and gradients); offload_param moves all other states at rest ` +
          `(${all} bytes are left on the GPU). Activations are not moved, and the optimizer's update needs transfers over the bus.`,
        evidence: { kind: 'formula', source: '100 * ((4 + 4) / (4 + 4 + 8) - 1)' },
      };
    },
  },
  {
    claim: claimOf('zero3.fairscale'),
    expected: { verdict: 'holds' },
    check() {
      const silent = (): undefined => undefined;
      const options = fromFairScale({ reshard_after_forward: true, flatten_parameters: true }, silent);
      return {
        verdict: holdsOr(options.shardingStrategy === 'FULL_SHARD', 'off'),
        unit: null,
        by: '',
        why:
          'With reshard_after_forward, its default, it shards the three states and sends the same three volumes. FairScale is archived; ' +
          "PyTorch's own FSDP was developed from it and replaces it.",
        evidence: { kind: 'run', source: "sl.lookup('FairScale FSDP')" },
      };
    },
  },
  {
    claim: claimOf('zero3.comm'),
    expected: { verdict: 'off', value: 1.5 },
    check: () => ({
      verdict: holdsOr(volumeAgainstDdp('FULL_SHARD', GPUS) < 1, 'off'),
      predicted: volumeAgainstDdp('FULL_SHARD', GPUS),
      unit: "x DDP's volume",
      by: '50% more, not less',
      why:
        'Stages 1 and 2 send as much as DDP; stage 3 gathers the parameters a second time for backward: 3 volumes, while DDP has 2 ' +
        '(ZeRO, section 7). Only memory falls.',
      evidence: { kind: 'formula', source: '(3 * 7 / 8) / (2 * 7 / 8)' },
    }),
  },
  {
    claim: claimOf('zero3.choice'),
    expected: { verdict: 'holds partly', value: 60, within: 8 },
    check(lab) {
      const { peak } = lab.memory(WAN_SHARDED);
      const gigabytes = {
        value: peak.value * GIB_PER_GB,
        low: peak.low * GIB_PER_GB,
        high: peak.high * GIB_PER_GB,
      };
      return {
        verdict: 'holds partly',
        judged: true,
        part: 'waiting and an adapter are possible',
        predicted: gigabytes,
        unit: 'GB per GPU',
        by: 'FairScale is archived, and its successor is in PyTorch',
        why: `PyTorch's fully_shard was developed from FairScale and shards any module as stage 3 does, without an adapter; the advice names FairScale first and this not at all. For both experts of Wan2.2 A14B with fp32 Adam and full recompute on 32 A100, ${gigabytes.value.toFixed(0)} GB per GPU are predicted.`,
        evidence: { kind: 'prediction', source: planCell(WAN_SHARDED) },
      };
    },
  },
];

/** Returns the bytes of a small model's states at rest on one of 8 GPUs. */
function onDevice(offload: TrainConfigInput['offload']): Bytes {
  const run = forecastRun(parseTrainConfig({ model: 'tiny', offload }), GPUS);
  return run === null ? 0 : totalBytes(run.states);
}
