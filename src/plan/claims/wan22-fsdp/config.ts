import { WarmupCosineLR } from '../../../optim/warmup-cosine-lr';
import { type ClaimEntry, fact } from '../entry';
import { FSDP_CONFIG_RUN } from './experiments';
import { WAN_GIVEN, wan } from './given';

/** Settings: which exist, and what they do. */
export const WAN_CONFIG: readonly ClaimEntry[] = [
  {
    claim: wan({
      id: 'wan.fsdp.config',
      kind: 'config',
      statement:
        'FSDP: transformer auto-wrap over 40 layers, FULL_SHARD, bf16 params and buffers, fp32 reduce, forward prefetch; device_id = current device; checkpoint_wrapper = CheckpointImpl.NO_CHECKPOINT',
      documented: null,
      unit: null,
      given: WAN_GIVEN,
    }),
    expected: { verdict: 'off', value: 17, within: 0 },
    experiment: FSDP_CONFIG_RUN,
    check: (_, facts) => ({
      verdict: 'off',
      measured: fact(facts, 'gathers'),
      unit: 'all-gathers a step (8 blocks)',
      by: 'two of its settings do not exist',
      why: `FSDP takes no checkpoint_wrapper, CheckpointImpl has no NO_CHECKPOINT, and "no checkpoint" would contradict checkpointing every 4th layer. The rest runs: ${fact(facts, 'gathers')} gathers and ${fact(facts, 'reductions')} reductions for 8 blocks (81 and 41 for 40), bf16 gathered, fp32 reduced.`,
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
    claim: wan({
      id: 'wan.ulysses.config',
      kind: 'config',
      statement:
        'DeepSpeed config: train_batch_size 256, gradient_accumulation_steps 8, gradient_clipping 1.0, communication_data_type fp16, ulysses enabled with size 8',
      documented: null,
      unit: null,
      given: {},
    }),
    expected: { verdict: 'off', value: 4, within: 0 },
    check: () => {
      const { gpus, grad_accum } = WAN_GIVEN;
      return {
        verdict: 'off',
        predicted: 256 / (grad_accum * gpus),
        unit: 'samples a GPU and micro-batch',
        by: '8 x smaller micro-batch than 32',
        why: 'DeepSpeed has no key "ulysses": it takes all 8 ranks as data-parallel and derives 256 / 8 / 8 = 4 samples. Sequence parallelism comes from a process group (mpu) and an attention wrapper; only then is the micro-batch 32. The other four keys exist.',
        evidence: { kind: 'formula', source: '256 / (8 * 8)' },
      };
    },
  },
  {
    claim: wan({
      id: 'wan.launch',
      kind: 'config',
      statement:
        'torchrun --nproc_per_node=8 with --task --ckpt_dir --dit_fsdp --t5_fsdp --ulysses_size 8 --batch_size 32 --gradient_accumulation_steps 8 --learning_rate 2.5e-5 --weight_decay 0.01 --max_steps 150000 --warmup_steps 10000 --save_interval 5000 --log_interval 100',
      documented: null,
      unit: null,
      given: {},
    }),
    expected: { verdict: 'off' },
    check: () => ({
      verdict: 'off',
      unit: null,
      by: 'no such script, and 8 of its 13 flags',
      why: 'Wan2.2 publishes inference: generate.py knows --task, --ckpt_dir, --dit_fsdp, --t5_fsdp and --ulysses_size, and asserts that the last is the world size and divides 40 heads, which 8 does. Training flags and a train.py are not there.',
      evidence: { kind: 'formula', source: "sl.lookup('torchrun train.py …').inTheOriginal" },
    }),
  },
  {
    claim: wan({
      id: 'wan.optim',
      kind: 'config',
      statement:
        'Fused AdamW lr 2.5e-5 betas 0.9/0.999 eps 1e-8 wd 0.01; warm-up 10000 then cosine to 2.5e-6 at 150000; clip at norm 1.0',
      documented: null,
      unit: null,
      given: {},
    }),
    expected: { verdict: 'confirmed', value: 2.5e-6 },
    check: () => {
      const schedule = new WarmupCosineLR(
        { lr: 2.5e-5 },
        { warmupSteps: 10_000, maxSteps: 150_000, etaMin: 2.5e-6 },
      );
      const middle = schedule.lrAt(80_000);
      return {
        verdict: schedule.lrAt(10_000) === 2.5e-5 ? 'confirmed' : 'off',
        predicted: schedule.lrAt(150_000),
        unit: 'learning rate at the end',
        by: '',
        why: `Every setting exists and they fit together: 2.5e-5 at step 10,000, ${middle.toExponential(3)} at 80,000, 2.5e-6 at 150,000. The class is DeepSpeed's (with other arguments), not torch's; "fused" changes speed, not values.`,
        evidence: {
          kind: 'formula',
          source: `const [lr, etaMin, warmup, max, n] = [2.5e-5, 2.5e-6, 10_000, 150_000, 150_000];
etaMin + (lr - etaMin) * 0.5 * (1 + Math.cos(Math.PI * (n - warmup) / (max - warmup)))`,
        },
      };
    },
  },
  {
    claim: wan({
      id: 'wan.env',
      kind: 'config',
      statement:
        'PyTorch 2.4.0, CUDA 12.1, NCCL 2.18.1, DeepSpeed 0.12.6, FlashAttention 2.5.8; 2 x Xeon 8360Y, 1 TB DDR4-3200, 4 TB NVMe RAID0, 8 x A100-80G on NVLink',
      documented: null,
      unit: null,
      given: {},
    }),
    expected: { verdict: 'off' },
    check: () => ({
      verdict: 'off',
      unit: null,
      by: 'NCCL 2.18.1 where PyTorch 2.4.0 brings 2.20.5',
      why: 'The wheel of PyTorch 2.4.0 requires nvidia-nccl-cu12 2.20.5 (the command asks the package index); 2.18.1 needs a build from source. The rest can be together: A100 boards with two Xeon 8360Y take DDR4-3200, and Wan2.2 asks for torch 2.4.0 or newer.',
      evidence: {
        kind: 'formula',
        source:
          "$ pip install --dry-run --quiet --no-deps --ignore-installed --report - torch==2.4.0 | grep -o 'nvidia-nccl-cu12[^;]*'",
      },
    }),
  },
];
