import { allNone, flag, type KeyTable, none } from '../rows/key-row';
import { fileKey } from './transformers';

const FILE = fileKey("DeepSpeed's JSON, which is read too");

/** Arguments that deepspeed.add_config_arguments adds to a script; the value of transformers' --deepspeed is the file. */
export const DEEPSPEED_ARGUMENTS: KeyTable = {
  deepspeed: {
    ...FILE,
    mean: (input) =>
      typeof input.value === 'boolean'
        ? { effect: 'none', why: 'DeepSpeed trains, as the file of deepspeed_config says' }
        : FILE.mean(input),
  },
  deepspeed_config: FILE,
  ...allNone('is the old form of an argument of DeepSpeed', 'deepscale deepscale_config'),
  deepspeed_mpi: flag(none('how processes find each other before they train')),
};
