import { DEEPSPEED_KEYS } from '../accelerate/accelerate-keys';
import { MEGATRON_KEYS } from '../megatron/megatron';
import { DIFFSYNTH } from '../videos/diffsynth';
import { accelerateFiles, isByDeepSpeed } from './accelerate-files';
import { deepSpeedConfig } from './deepspeed-config';
import { DIFFSYNTH_EXCEPTIONS, diffSynthNotes } from './diffsynth-exceptions';
import { argumentNotes, diffSynthFiles, diffSynthReads, namesKept } from './diffsynth-files';
import { deepSpeedFiles, slurmFile, torchrunFile } from './launch-files';
import { megatronFiles } from './megatron-files';
import { modelNotes } from './model-folder';
import { isPythonCode, ownNotes } from './own-model';
import { ownAccelerateFiles, ownDeepSpeedScripts, torchScripts } from './own-script';
import { MEGATRON_EXCEPTIONS, swiftExceptions } from './program-exceptions';
import { DIFFSYNTH_PACKAGE, type Package, SWIFT_PACKAGE, TRANSFORMERS_PACKAGE } from './requirements';
import {
  ACCELERATE_DEEPSPEED_EXCEPTIONS,
  ACCELERATE_EXCEPTIONS,
  DEEPSPEED_EXCEPTIONS,
  TORCH_EXCEPTIONS,
} from './script-exceptions';
import { isByMegatron, swiftFiles, swiftKeys } from './swift-files';
import type { BundleFacts, BundleFile, Target } from './target';
import { accelerateScript, deepSpeedScript } from './train-script';
import { VIDEO_EXCEPTIONS, videoScripts } from './video-script';

/** Returns the packages that a user's Python imports. */
function packagesOfModel({ shape }: BundleFacts): readonly Package[] {
  return shape.kind === 'own' && isPythonCode(shape.code) ? shape.code.packages : [];
}

/** Returns notes about a user's own model. */
function notesOfModel({ shape }: BundleFacts): readonly string[] {
  return shape.kind === 'own' ? ownNotes(shape) : [];
}

/** What targets with train.py for torchrun have in common. */
export const TORCH = {
  takesOwnModels: true,
  originals: ['torch', 'fullyShard', 'fsdp'],
  packages: packagesOfModel,
  data: 'batches',
  except: () => TORCH_EXCEPTIONS,
  notes: ({ shape, config }: BundleFacts): readonly string[] =>
    shape.kind === 'own'
      ? ownNotes(shape)
      : config.parallel.tp > 1 && shape.kind === 'gpt'
        ? [
            'With tensor parallelism, train.py orders the rows of qkv by ranks; its checkpoints have this order.',
          ]
        : [],
} as const satisfies Partial<Target>;

/** Adds the form of a target for video models, whose launch files `launch` makes, to a target with train.py for torchrun. */
export function withVideos(
  target: Omit<Target, 'files'>,
  launch: (facts: BundleFacts) => BundleFile,
): Target {
  return {
    ...target,
    files: (facts) => [...torchScripts(facts), launch(facts)],
    videos: {
      ...target,
      takesOwnModels: false,
      except: () => VIDEO_EXCEPTIONS,
      notes: (facts) => [
        ...target.notes(facts),
        ...(facts.config.textEncoder?.fsdp === true
          ? ['Each rank reads all values of the text encoder before it shards them.']
          : []),
      ],
      files: (facts) => [...videoScripts(facts), launch(facts)],
    },
  };
}

/** Returns how launch.sh is started. */
export function startByHand({ machines }: BundleFacts): string {
  return machines === 1
    ? './launch.sh'
    : `on every machine: MAIN=address-of-machine-0 ./launch.sh NUMBER (0 to ${machines - 1})`;
}

/** Returns how the launch scripts of Accelerate are started. */
export function startByAccelerate({ machines }: BundleFacts): string {
  return machines === 1
    ? './launch_0.sh'
    : `MAIN=address-of-machine-0 ./launch_N.sh on machine N, 0 to ${machines - 1}, from a volume that all machines mount`;
}

/** Notes of programs with transformers' Trainer. */
export const TRAINER_NOTES = [
  "transformers' learning rates are one step behind during the warm-up: the first step has rate 0.",
  'The parsers of transformers, Accelerate and DeepSpeed can read such files; no training was run with them.',
] as const;

/** PyTorch under torchrun. */
export const TORCHRUN_TARGET: Target = withVideos(
  {
    order: 10,
    ...TORCH,
    says: 'PyTorch (DDP or fully_shard), started by torchrun',
    start: startByHand,
  },
  torchrunFile,
);

/** DiffSynth-Studio under Accelerate, which takes the place of our script for video models. */
const DIFFSYNTH_TARGET: Target = {
  order: 20,
  says: 'DiffSynth-Studio under Accelerate, with DeepSpeed or DDP',
  originals: ['accelerate', 'diffSynth'],
  keys: () => [DIFFSYNTH.keys, DEEPSPEED_KEYS],
  keeps: namesKept,
  packages: () => [DIFFSYNTH_PACKAGE, 'accelerate', 'deepspeed'],
  data: 'own',
  reads: diffSynthReads,
  except: () => DIFFSYNTH_EXCEPTIONS,
  start: (facts) =>
    `git clone https://github.com/modelscope/DiffSynth-Studio, then ${startByAccelerate(facts)}`,
  notes: (facts) => [...argumentNotes(facts), ...diffSynthNotes(facts)],
  files: diffSynthFiles,
};

/** Accelerate. */
export const ACCELERATE_TARGET: Target = {
  order: 20,
  says: "Hugging Face's Accelerate, with FSDP2 or DeepSpeed",
  originals: ['accelerate', 'torch'],
  // With DeepSpeed, Accelerate reads the version of transformers, so that package must be installed.
  takesOwnModels: true,
  packages: (facts) => [
    ...packagesOfModel(facts),
    'accelerate',
    ...(isByDeepSpeed(facts) ? (['deepspeed', TRANSFORMERS_PACKAGE] as const) : []),
  ],
  data: 'batches',
  except: (facts) => (isByDeepSpeed(facts) ? ACCELERATE_DEEPSPEED_EXCEPTIONS : ACCELERATE_EXCEPTIONS),
  start: startByAccelerate,
  notes: (facts) => [
    ...notesOfModel(facts),
    'Accelerate uses FSDP and DeepSpeed on GPUs only: on CPUs (ACCELERATE_USE_CPU=true ./launch_0.sh) it trains the same model under DDP.',
  ],
  files: (facts) =>
    facts.shape.kind === 'own'
      ? ownAccelerateFiles(facts, facts.shape)
      : [accelerateScript(facts), ...accelerateFiles(facts)],
  videos: DIFFSYNTH_TARGET,
};

/** DeepSpeed. */
export const DEEPSPEED_TARGET: Target = {
  order: 30,
  says: 'DeepSpeed ZeRO-0 to ZeRO-3',
  originals: ['deepSpeed'],
  takesOwnModels: true,
  packages: (facts) => [...packagesOfModel(facts), 'deepspeed'],
  data: 'batches',
  except: () => DEEPSPEED_EXCEPTIONS,
  start: ({ machines }) =>
    machines === 1 ? './launch.sh' : './launch.sh on machine-0, after writing your machines into hostfile',
  notes: (facts) => [
    ...notesOfModel(facts),
    "The optimizer is PyTorch's (torch_adam), so nothing is compiled; DeepSpeed's FusedAdam is faster on GPUs.",
  ],
  files: (facts) => [
    ...(facts.shape.kind === 'own' ? ownDeepSpeedScripts(facts, facts.shape) : [deepSpeedScript(facts)]),
    { path: 'ds_config.json', text: deepSpeedConfig(facts) },
    ...deepSpeedFiles(facts),
  ],
};

/** Megatron-LM. */
export const MEGATRON_TARGET: Target = {
  order: 40,
  says: "Megatron-LM's pretrain_gpt.py",
  originals: ['megatron'],
  keys: () => [MEGATRON_KEYS],
  packages: () => [],
  data: 'megatron',
  except: () => MEGATRON_EXCEPTIONS,
  start: ({ machines }) =>
    `MEGATRON=path-of-Megatron-LM ${machines === 1 ? './launch.sh' : 'MAIN=address-of-machine-0 ./launch.sh NUMBER on every machine'}`,
  notes: () => [
    'Megatron-LM cannot read model.safetensors: it begins with its own initial values (normal, std 0.02), so its losses differ from those of a run here. To train these weights, convert them into a checkpoint of Megatron-LM and add --load.',
    'Megatron-LM initializes the output layers of a block with a smaller std, 0.02 / sqrt(2 · layers), and does not decay biases and norms.',
    'This bundle was not run here: Megatron-LM needs GPUs.',
  ],
  files: megatronFiles,
};

/** ms-swift. */
export const SWIFT_TARGET: Target = {
  order: 50,
  says: 'ms-swift: swift sft, or megatron sft with parallel.tp or pp',
  originals: ['peft'],
  keys: (facts) => [swiftKeys(facts)],
  packages: () => [SWIFT_PACKAGE],
  data: 'own',
  except: swiftExceptions,
  start: startByHand,
  notes: (facts) => [
    ...modelNotes(facts),
    ...TRAINER_NOTES,
    ...(isByMegatron(facts)
      ? ["megatron sft also needs Megatron-LM and mcore-bridge; ms-swift's documentation says which."]
      : []),
  ],
  files: swiftFiles,
};

/** PyTorch under Slurm. */
export const SLURM_TARGET: Target = withVideos(
  {
    order: 60,
    ...TORCH,
    says: 'PyTorch under Slurm (srun torchrun)',
    start: () => 'sbatch job.sbatch',
  },
  slurmFile,
);
