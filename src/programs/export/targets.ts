import { MEGATRON_KEYS } from '../megatron/megatron';
import { LLAMA_FACTORY } from '../trainers/llama-factory';
import { TORCHTITAN } from '../trainers/torchtitan';
import { accelerateFiles, isByDeepSpeed } from './accelerate-files';
import { deepSpeedConfig } from './deepspeed-config';
import { deepSpeedFiles, kubernetesFile, slurmFile, torchrunFile } from './launch-files';
import { isByAccelerate, llamaFactoryFiles } from './llama-factory-files';
import { megatronFiles } from './megatron-files';
import { modelNotes } from './model-folder';
import {
  llamaFactoryExceptions,
  MEGATRON_EXCEPTIONS,
  swiftExceptions,
  TORCHTITAN_EXCEPTIONS,
} from './program-exceptions';
import {
  ACCELERATE_DEEPSPEED_EXCEPTIONS,
  ACCELERATE_EXCEPTIONS,
  DEEPSPEED_EXCEPTIONS,
  TORCH_EXCEPTIONS,
} from './script-exceptions';
import { isByMegatron, swiftFiles, swiftKeys } from './swift-files';
import type { BundleFacts, Target } from './target';
import { torchTitanFiles, torchTitanNotes } from './torchtitan-files';
import { accelerateScript, deepSpeedScript, torchScript } from './train-script';

const TORCH = {
  originals: ['torch', 'fullyShard', 'fsdp'],
  packages: () => [],
  data: 'batches',
  except: () => TORCH_EXCEPTIONS,
  notes: ({ shape, config }: BundleFacts): readonly string[] =>
    config.parallel.tp > 1 && shape.kind === 'gpt'
      ? [
          'With tensor parallelism, train.py orders the rows of qkv by ranks; its checkpoints have this order.',
        ]
      : [],
} as const satisfies Partial<Target>;

function startByHand({ machines }: BundleFacts): string {
  return machines === 1
    ? './launch.sh'
    : `on every machine: MAIN=address-of-machine-0 ./launch.sh NUMBER (0 to ${machines - 1})`;
}

function startByAccelerate({ machines }: BundleFacts): string {
  return machines === 1
    ? './launch_0.sh'
    : `MAIN=address-of-machine-0 ./launch_N.sh on machine N, 0 to ${machines - 1}, from a volume that all machines mount`;
}

const TRAINER_NOTES = [
  "transformers' learning rates are one step behind during the warm-up: the first step has rate 0.",
  'The parsers of transformers, Accelerate and DeepSpeed can read such files; no training was run with them.',
] as const;

/** Every program and scheduler for which bundles are written. */
export const TARGETS = {
  torchrun: {
    ...TORCH,
    says: 'PyTorch (DDP or fully_shard), started by torchrun',
    start: startByHand,
    files: (facts) => [torchScript(facts), torchrunFile(facts)],
  },
  accelerate: {
    says: "Hugging Face's Accelerate, with FSDP2 or DeepSpeed",
    originals: ['accelerate', 'torch'],
    // With DeepSpeed, Accelerate reads the version of transformers, so that package must be installed.
    packages: (facts) => [
      'accelerate',
      ...(isByDeepSpeed(facts) ? (['deepspeed', 'transformers'] as const) : []),
    ],
    data: 'batches',
    except: (facts) => (isByDeepSpeed(facts) ? ACCELERATE_DEEPSPEED_EXCEPTIONS : ACCELERATE_EXCEPTIONS),
    start: startByAccelerate,
    notes: () => [
      'Accelerate uses FSDP and DeepSpeed on GPUs only: on CPUs (ACCELERATE_USE_CPU=true ./launch_0.sh) it trains the same model under DDP.',
    ],
    files: (facts) => [accelerateScript(facts), ...accelerateFiles(facts)],
  },
  deepspeed: {
    says: 'DeepSpeed ZeRO-0 to ZeRO-3',
    originals: ['deepSpeed'],
    packages: () => ['deepspeed'],
    data: 'batches',
    except: () => DEEPSPEED_EXCEPTIONS,
    start: ({ machines }) =>
      machines === 1 ? './launch.sh' : './launch.sh on machine-0, after writing your machines into hostfile',
    notes: () => [
      "The optimizer is PyTorch's (torch_adam), so nothing is compiled; DeepSpeed's FusedAdam is faster on GPUs.",
    ],
    files: (facts) => [
      deepSpeedScript(facts),
      { path: 'ds_config.json', text: deepSpeedConfig(facts) },
      ...deepSpeedFiles(facts),
    ],
  },
  megatron: {
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
  },
  torchtitan: {
    says: "TorchTitan's TOML",
    originals: [],
    keys: () => [TORCHTITAN.keys],
    packages: () => ['torchtitan'],
    data: 'own',
    except: () => TORCHTITAN_EXCEPTIONS,
    start: startByHand,
    notes: torchTitanNotes,
    files: torchTitanFiles,
  },
  swift: {
    says: 'ms-swift: swift sft, or megatron sft with parallel.tp or pp',
    originals: ['peft'],
    keys: (facts) => [swiftKeys(facts)],
    packages: () => ['ms-swift'],
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
  },
  llamafactory: {
    says: "LLaMA-Factory's YAML, with DeepSpeed's JSON or a config of Accelerate if they shard the model",
    originals: ['peft', 'accelerate'],
    keys: () => [LLAMA_FACTORY.keys],
    packages: (facts) => ['llamafactory', ...(isByDeepSpeed(facts) ? (['deepspeed'] as const) : [])],
    data: 'own',
    except: llamaFactoryExceptions,
    start: (facts) => (isByAccelerate(facts) ? startByAccelerate(facts) : startByHand(facts)),
    notes: (facts) => [...modelNotes(facts), ...TRAINER_NOTES],
    files: llamaFactoryFiles,
  },
  slurm: {
    ...TORCH,
    says: 'PyTorch under Slurm (srun torchrun)',
    start: () => 'sbatch job.sbatch',
    files: (facts) => [torchScript(facts), slurmFile(facts)],
  },
  kubernetes: {
    ...TORCH,
    says: "PyTorch under Kubernetes (Kubeflow's PyTorchJob)",
    notes: (facts) => [
      ...TORCH.notes(facts),
      'Pods install PyTorch into the image python:3.12 at each start; an image that has PyTorch starts faster.',
    ],
    start: () => 'copy this folder to the volume claim "bundle", then kubectl apply -f pytorchjob.yaml',
    files: (facts) => [torchScript(facts), kubernetesFile(facts, 'python:3.12')],
  },
} as const satisfies Readonly<Record<string, Target>>;

export type TargetName = keyof typeof TARGETS;

/** The names of all targets, in the order of the help. */
export const TARGET_NAMES = Object.keys(TARGETS) as [TargetName, ...TargetName[]]; // the keys of TARGETS
