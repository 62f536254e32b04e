import { ACCELERATE, ACCELERATE_LAUNCH, FSDP_CONFIG } from '../accelerate/accelerate';
import { DEEPSPEED } from '../deepspeed/deepspeed';
import {
  ACCELERATE_TARGET,
  DEEPSPEED_TARGET,
  MEGATRON_TARGET,
  SLURM_TARGET,
  SWIFT_TARGET,
  TORCHRUN_TARGET,
} from '../export/targets';
import { ENVIRONMENT, SLURM } from '../launchers/environment';
import { DEEPSPEED_LAUNCHER, TORCHRUN } from '../launchers/torchrun';
import { MEGATRON } from '../megatron/megatron';
import { TRAINER_CALLS } from '../python/trainer-calls';
import { beginsWith } from '../shell/program';
import { isMegatronDeepSpeed, MEGATRON_DEEPSPEED } from '../trainers/megatron-deepspeed';
import { MEGATRON_SWIFT, MEGATRON_SWIFT_PT } from '../trainers/megatron-swift';
import { SWIFT, SWIFT_FSDP, SWIFT_PT } from '../trainers/swift';
import { SWIFT_RLHF } from '../trainers/swift-rlhf';
import { TRANSFORMERS } from '../trainers/transformers';
import { DIFFSYNTH } from '../videos/diffsynth';
import { WAN } from '../videos/wan';
import { hasMark } from './marks';
import { kindOfPreferences, refusedPreferences, refusedScript } from './preferences';
import type { Program } from './program';

/** The table of the calls in a script of Python; the registry puts together its rows. */
export const PYTHON_NAME = 'PyTorch in a script';

/** Keys of swift of which a file of its arguments has one. */
const MODEL_OR_DATA = ['model', 'dataset', 'load', 'mcore_model'];

/** The programs that the documents name, with their launchers and schedulers. */
export const DOCUMENTED: readonly Program[] = [
  {
    name: 'Accelerate',
    order: 10,
    keys: [ACCELERATE, ACCELERATE_LAUNCH],
    files: [{ dialect: ACCELERATE, order: 10, isUsual: true }],
    commands: [
      { words: ['accelerate', 'launch'], dialect: ACCELERATE_LAUNCH, isLauncher: true },
      { words: ['accelerate-launch'], dialect: ACCELERATE_LAUNCH, isLauncher: true },
      { words: ['python', '-m', 'accelerate.commands.launch'], dialect: ACCELERATE_LAUNCH, isLauncher: true },
    ],
    write: { accelerate: ACCELERATE_TARGET },
  },
  {
    name: 'DeepSpeed',
    order: 20,
    keys: [DEEPSPEED, DEEPSPEED_LAUNCHER],
    files: [{ dialect: DEEPSPEED, order: 20, isUsual: true }],
    commands: [{ words: ['deepspeed'], dialect: DEEPSPEED_LAUNCHER, isLauncher: true }],
    write: { deepspeed: DEEPSPEED_TARGET },
  },
  {
    name: 'torchrun',
    order: 30,
    keys: [TORCHRUN],
    commands: [
      { words: ['torchrun'], dialect: TORCHRUN, isLauncher: true },
      { words: ['python', '-m', 'torch.distributed.run'], dialect: TORCHRUN, isLauncher: true },
      { words: ['python', '-m', 'torch.distributed.launch'], dialect: TORCHRUN, isLauncher: true },
    ],
    write: { torchrun: TORCHRUN_TARGET },
  },
  {
    name: 'transformers',
    order: 40,
    keys: [TRANSFORMERS],
    calls: { module: 'transformers', functions: TRAINER_CALLS },
  },
  {
    name: "transformers' FSDP",
    order: 50,
    keys: [FSDP_CONFIG],
    files: [{ dialect: FSDP_CONFIG, order: 50 }],
  },
  {
    name: 'ms-swift',
    order: 60,
    keys: [SWIFT, SWIFT_FSDP, MEGATRON_SWIFT],
    files: [
      { dialect: SWIFT_FSDP, order: 30 },
      { dialect: SWIFT, order: 100, needs: MODEL_OR_DATA },
      { dialect: MEGATRON_SWIFT, order: 110, needs: MODEL_OR_DATA },
    ],
    commands: [
      { words: ['swift', 'sft'], dialect: SWIFT, choosesProcesses: true },
      { words: ['swift', 'pt'], dialect: SWIFT_PT, choosesProcesses: true },
      { words: ['swift', 'rlhf'], dialect: SWIFT_RLHF, choosesProcesses: true },
      { words: ['megatron', 'sft'], dialect: MEGATRON_SWIFT },
      { words: ['megatron', 'pt'], dialect: MEGATRON_SWIFT_PT },
    ],
    scripts: [
      {
        order: 20,
        fits: (script) => {
          if (!/swift\/cli\//.test(script)) return null;
          if (!/swift\/cli\/(_megatron\/)?(sft|pt|main)\.py$/.test(script)) return refusedScript(script);
          return script.includes('_megatron/') ? MEGATRON_SWIFT : SWIFT;
        },
      },
    ],
    refuses: (words) => {
      const program = ['swift', 'megatron'].find((name) => beginsWith(words, [name, 'rlhf']));
      // Only `megatron rlhf` divides matrices, which DPO does not do here.
      const isRead = program === 'swift' && kindOfPreferences(words) === 'dpo';
      return program === undefined || isRead ? null : refusedPreferences([program, 'rlhf'], `${program} sft`);
    },
    write: { swift: SWIFT_TARGET },
  },
  {
    name: 'Megatron-LM',
    order: 70,
    keys: [MEGATRON],
    scripts: [
      {
        order: 30,
        fits: (script, names) => {
          if (!/pretrain_\w+\.py$/.test(script)) return null;
          return isMegatronDeepSpeed(names) ? MEGATRON_DEEPSPEED : MEGATRON;
        },
      },
    ],
    write: { megatron: MEGATRON_TARGET },
  },
  {
    name: 'Wan2.2',
    order: 80,
    keys: [WAN],
    scripts: [
      {
        order: 60,
        fits: (_, names) =>
          hasMark(names, WAN, 'dit_fsdp', 't5_fsdp', 'ulysses_size', 'ckpt_dir') ? WAN : null,
      },
    ],
  },
  {
    name: 'DiffSynth-Studio',
    order: 90,
    keys: [DIFFSYNTH],
    scripts: [
      {
        order: 50,
        fits: (_, names) =>
          hasMark(names, DIFFSYNTH, 'model_paths', 'model_id_with_origin_paths', 'dataset_base_path')
            ? DIFFSYNTH
            : null,
      },
    ],
  },
  { name: PYTHON_NAME, order: 100, keys: [] },
  { name: 'Slurm', order: 110, keys: [ENVIRONMENT, SLURM], write: { slurm: SLURM_TARGET } },
];
