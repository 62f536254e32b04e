import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { parseTrainConfig, type TrainConfigInput } from '../../../src/config/train-config';
import { planBundle, writeBundle } from '../../../src/programs/bundle/bundle';
import { readConfig } from '../../../src/programs/read';
import type { ReadLine } from '../../../src/programs/rows/reading';
import { DOCUMENTS, folderOf } from '../read-files';
import { type TestBundle, testFolder } from './export-fixture';

/**
 * The script that the Accelerate document starts on machine 0: DiffSynth-Studio's for Wan2.2-I2V-A14B with the document's NCCL variables and
 * paths. `inputs` are the arguments in which the document's own edit of another script differs.
 */
export function documentScript(
  inputs = '--extra_inputs "input_image" --max_timestep_boundary 0.358 --min_timestep_boundary 0',
): string {
  const paths = readFileSync(join(DOCUMENTS, 'model_paths.json'), 'utf8').trim();
  return `#!/bin/bash
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL NCCL_SOCKET_IFNAME=eth0
export NCCL_IB_DISABLE=0
export NCCL_IB_GID_INDEX=3
accelerate launch --config_file accelerate_0.yaml examples/wanvideo/model_training/train.py \\
  --dataset_base_path data/example_video_dataset \\
  --dataset_metadata_path data/example_video_dataset/metadata.csv \\
  --height 480 --width 832 --num_frames 49 --dataset_repeat 100 \\
  --model_paths '${paths}' \\
  --learning_rate 1e-5 --num_epochs 2 \\
  --remove_prefix_in_ckpt "pipe.dit." \\
  --output_path "./models/train/Wan2.2-I2V-A14B_high_noise_full" \\
  --trainable_models "dit" ${inputs} \\
  --use_gradient_checkpointing_offload
`;
}

/** Writes the document's script and the YAML of machine 0, and returns their folder. */
export function documentFolder(script: string = documentScript()): string {
  const yaml = readFileSync(join(DOCUMENTS, 'accelerate_4x8.yaml'), 'utf8');
  return folderOf({ 'train.sh': script, 'accelerate_0.yaml': yaml });
}

/** Exports the settings of a video model to Accelerate. */
export function wanBundle(
  context: TestContext,
  input: TrainConfigInput,
  { machines = 4, lines = [] }: { readonly machines?: number; readonly lines?: readonly ReadLine[] } = {},
): TestBundle {
  const out = join(testFolder(context), 'bundle');
  const place = { to: 'accelerate', out, machines, gpusPerMachine: 8 };
  const report = writeBundle(planBundle(parseTrainConfig(input), place, { lines }), { prepared: undefined });
  const bytes = (path: string): Buffer => readFileSync(join(out, path));
  return { report, bytes, text: (path) => bytes(path).toString() };
}

/** Exports the document's script for four machines. */
export function documentBundle(context: TestContext, script?: string): TestBundle {
  const { config, lines } = readConfig('train.sh', { cwd: documentFolder(script) });
  return wanBundle(context, config, { lines });
}
