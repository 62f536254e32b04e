import type { Estimate } from '../../prediction';
import type { PlanRequestInput } from '../../request';
import { claimOf } from '../claim';
import { type ClaimEntry, fact } from '../entry';
import type { PlanLab } from '../lab';
import { changeCell, planCell } from '../plan-cell';
import { EIGHT_BIT } from './experiments';
import { WAN_GIVEN } from './given';
import { SIZES, WAN_REQUESTS } from './wan-requests';

const { params, gpus } = WAN_GIVEN;

/** The document's expectations of other methods and hardware. */
export const WAN_FUTURES: readonly ClaimEntry[] = [
  {
    claim: claimOf('wan.future.adam8bit'),
    expected: { verdict: 'confirmed', value: -74.6, within: 0.3 },
    experiment: EIGHT_BIT,
    check: (_, facts) => ({
      verdict: 'confirmed',
      measured: 100 * (fact(facts, 'bytesRatio') - 1),
      unit: '% of optimizer bytes',
      by: '',
      why: `Moments of one byte, with a scale per 256 elements, need 6.9 GB per GPU instead of 27.0 GB for 27B over 8. The loss after 8 steps is ${fact(facts, 'lossRatio').toFixed(4)} x the loss with fp32 moments.`,
      evidence: {
        kind: 'run',
        source: `const job = await sl.launch({ ranks: 2 });
const of = async (kind: 'adamW' | 'adamW8bit') => {
  const run = await job.train({ model: 'tiny', data: 'synthetic', optimizer: { kind } });
  await run.step(8);
  return run;
};
sl.compare({ fp32: await of('adamW'), eightBit: await of('adamW8bit') })`,
      },
    }),
  },
  {
    claim: claimOf('wan.future.3d'),
    expected: { verdict: 'not checkable here', value: 0.8, within: 0.3 },
    check: (lab) => {
      const sharded = lab.predict(FSDP_175B);
      const cut = lab.predict(MEGATRON_175B);
      const ratio = (a: number, b: number): number => a / b;
      return {
        verdict: 'not checkable here',
        predicted: {
          value: ratio(sharded.seconds.value, cut.seconds.value),
          low: ratio(sharded.seconds.low, cut.seconds.high),
          high: ratio(sharded.seconds.high, cut.seconds.low),
        },
        unit: 'x the speed of FSDP alone',
        by: '',
        why: `GPT-3 175B on 512 A100, 1,536 sequences of 2,048: FSDP alone fits (${Math.round(sharded.memory.peak.value)} GiB), so memory does not force 3D. 3D is faster if a GPU has too few tokens to hide its all-gathers: with fewer sequences, or more GPUs.`,
        evidence: {
          kind: 'prediction',
          source: `${planCell(FSDP_175B)}.seconds.value / ${planCell(MEGATRON_175B)}.seconds.value`,
        },
        needs: '64 nodes of 8 A100-80G with a 200 Gbit/s network card per GPU',
        command:
          'torchrun --nnodes 64 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint "$HEAD_NODE:29500" Megatron-LM/pretrain_gpt.py ' +
          '--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 ' +
          '--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 6 --micro-batch-size 1 ' +
          '--global-batch-size 1536 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --bf16 --mock-data ' +
          '--tokenizer-type NullTokenizer --vocab-size 51199 --train-iters 20 --lr 1e-4 --log-interval 1 --log-throughput',
      };
    },
  },
  {
    claim: claimOf('wan.future.flash3'),
    expected: { verdict: 'not checkable here', value: -36, within: 8 },
    check: (lab) => ({
      verdict: 'not checkable here',
      predicted: flash3Saves(lab),
      unit: '% of the time of attention',
      by: '',
      why: "FlashAttention-3 is written for Hopper (H100, H800) and does not run on the document's A100. On H100 it is predicted to take this much less time than FlashAttention-2, which uses none of Hopper's asynchronous units.",
      evidence: {
        kind: 'prediction',
        source: changeCell(
          { ...ON_H100, attention: 'flash3' },
          { ...ON_H100, attention: 'flash' },
          'prediction.time.computeByCause.attention',
        ),
      },
      needs: 'one H100',
      command:
        'git clone https://github.com/Dao-AILab/flash-attention && cd flash-attention/hopper && python setup.py install && ' +
        "python -c \"import torch, time, flash_attn, flash_attn_interface as f3; q = torch.randn(1, 32760, 40, 128, device='cuda', dtype=torch.bfloat16); " +
        "[print(n, t) for n, f in (('2', flash_attn.flash_attn_func), ('3', f3.flash_attn_func)) for t in [min((torch.cuda.synchronize(), s := time.time(), f(q, q, q), " +
        'torch.cuda.synchronize(), time.time() - s)[-1] for _ in range(5))]]"',
    }),
  },
  {
    claim: claimOf('wan.consumer'),
    expected: { verdict: 'off', value: 54 },
    check: () => ({
      verdict: 'off',
      predicted: (16 * params) / gpus / 1e9,
      unit: 'GB per GPU of 24 GB',
      by: '2.25 x the memory of a GPU, without activations',
      why: `Masters, gradients and Adam's states of 27B are 432 GB: 54 GB on each of 8 GPUs, but consumer GPUs have 24 GB (RTX 4090) or 32 GB (RTX 5090). At least 18 GPUs of 24 GB are needed, or states on the CPU (432 GB of RAM) with transfers over PCIe.`,
      evidence: { kind: 'formula', source: '27e9 * (4 + 4 + 8) / 8 / 1e9' },
    }),
  },
];

const ON_H100: PlanRequestInput = { ...WAN_REQUESTS.published, hardware: 'H100-80G', seq: SIZES.usual };

/** Returns the planner's value; bounds: 1.5 to 2 times the speed of version 2. Source: Shah et al. 2024, section 4. */
function flash3Saves(lab: PlanLab): Estimate {
  const of = (attention: 'flash' | 'flash3'): number =>
    lab.predict({ ...ON_H100, attention }).time.computeByCause.attention;
  return { value: 100 * (of('flash3') / of('flash') - 1), low: 100 * (1 / 2 - 1), high: 100 * (1 / 1.5 - 1) };
}

const TASK = {
  model: 'gpt3-175b',
  hardware: 'A100-80G',
  gpus: 512,
  batch: { global: 1536, micro: 1 },
  recompute: 'full',
} as const satisfies PlanRequestInput;

/** Every rank computes three sequences. */
const FSDP_175B: PlanRequestInput = { ...TASK, parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' } };
const MEGATRON_175B: PlanRequestInput = {
  ...TASK,
  parallel: { tp: 8, pp: 8, strategy: 'NO_SHARD', stack: 'megatron', sequenceParallel: true },
  schedule: 'interleaved',
  virtualStages: 2,
};
