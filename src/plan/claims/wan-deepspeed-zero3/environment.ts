import type { StatedPart } from '../stated-part';

/** The environment of "Wan with DeepSpeed stage 3, offload and FairScale". */
export const STATED_BY_WAN_DEEPSPEED_ZERO3: readonly StatedPart[] = [
  {
    item: 'DeepSpeed',
    section: 'features of stage 3',
    stated: 'no version; said not to work with Wan',
    probe: { kind: 'package', name: 'deepspeed' },
    needed: ['engine torch'],
    why: "Only job.train(config, { framework: 'deepspeed' }) on engine torch needs it (npx shardlab engine torch --deepspeed); strategy FULL_SHARD shards the same states without it.",
    claim: 'zero3.shards',
  },
  {
    item: 'FairScale',
    section: 'alternative of the project',
    stated: 'no version',
    probe: { kind: 'package', name: 'fairscale' },
    needed: [],
    why: 'It is archived, and PyTorch’s own FSDP replaces it; its options are understood here (sl.lookup).',
    claim: 'zero3.fairscale',
  },
  {
    item: 'PyTorch',
    section: 'alternative of the project',
    stated: 'no version',
    probe: { kind: 'torch' },
    needed: ['engine torch', 'cluster'],
    why: 'Both libraries extend it. Ranks of this library’s own engine need no PyTorch.',
  },
  {
    item: 'GPUs',
    section: 'background',
    stated: 'several; kind and number not stated',
    probe: { kind: 'gpus', least: 2 },
    needed: ['cluster'],
    why: 'The states of stage 3 are 16/N bytes per parameter on N GPUs. A plan says how many GPUs a model needs.',
    claim: 'zero3.choice',
  },
  {
    item: 'memory',
    section: 'features of stage 3',
    stated: 'used for offload; size not stated',
    probe: { kind: 'memory', least: 168e9 },
    needed: ['cluster'],
    why: 'Offload moves 12 bytes per parameter of Adam in fp32 to the machine’s memory: 168 GB for 14B parameters, divided over the machines. Here the host is a second heap of the same process.',
    claim: 'zero3.offload',
  },
];
