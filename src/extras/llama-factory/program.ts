import {
  type BundleFacts,
  type Exceptions,
  hasMark,
  isByDeepSpeed,
  modelNotes,
  ofPrecision,
  onlyMeshes,
  onlyStage3,
  registerPrograms,
  startByAccelerate,
  startByHand,
  TRAINER_EXCEPTIONS,
  TRAINER_NOTES,
} from '../../programs/toolkit';
import { LLAMA_FACTORY } from './llama-factory';
import { isByAccelerate, llamaFactoryFiles } from './llama-factory-files';
import { LLAMA_FACTORY_V1 } from './llama-factory-v1';

/** Returns the exceptions of LLaMA-Factory's YAML. DeepSpeed's JSON, if there is one, has the types of gradients and the offload. */
const llamaFactoryExceptions = (facts: BundleFacts): Exceptions => ({
  ...TRAINER_EXCEPTIONS,
  'parallel.strategy': onlyMeshes,
  ...(isByDeepSpeed(facts) && {
    'parallel.communicationDataType': ofPrecision,
    'mixedPrecision.paramDtype': null,
    'mixedPrecision.reduceDtype': null,
    'offload.parameters': onlyStage3,
  }),
});

registerPrograms({
  name: 'LLaMA-Factory',
  order: 62,
  keys: [LLAMA_FACTORY, LLAMA_FACTORY_V1],
  files: [
    { dialect: LLAMA_FACTORY, order: 40, isUsual: true },
    { dialect: LLAMA_FACTORY_V1, order: 80 },
  ],
  commands: [{ words: ['llamafactory-cli', 'train'], dialect: LLAMA_FACTORY }],
  scripts: [
    {
      order: 70,
      fits: (_, names) =>
        hasMark(names, LLAMA_FACTORY, 'finetuning_type', 'cutoff_len', 'lora_target', 'stage')
          ? LLAMA_FACTORY
          : null,
    },
  ],
  write: {
    llamafactory: {
      order: 55,
      says: "LLaMA-Factory's YAML, with DeepSpeed's JSON or a config of Accelerate if they shard the model",
      originals: ['peft', 'accelerate'],
      keys: () => [LLAMA_FACTORY.keys],
      packages: (facts) => [
        { name: 'llamafactory', version: '0.9.5' },
        ...(isByDeepSpeed(facts) ? (['deepspeed'] as const) : []),
      ],
      data: 'own',
      except: llamaFactoryExceptions,
      start: (facts) => (isByAccelerate(facts) ? startByAccelerate(facts) : startByHand(facts)),
      notes: (facts) => [...modelNotes(facts), ...TRAINER_NOTES],
      files: llamaFactoryFiles,
    },
  },
});
