import { registerPrograms, startByHand } from '../../programs/toolkit';
import { TORCHTITAN } from './torchtitan';
import { TORCHTITAN_EXCEPTIONS } from './torchtitan-exceptions';
import { TORCHTITAN_PACKAGE, torchTitanFiles, torchTitanNotes } from './torchtitan-files';

/** Sections of TorchTitan's settings that no other program's file has at its top. */
const SECTIONS = [
  'training',
  'parallelism',
  'activation_checkpoint',
  'checkpoint',
  'job',
  'metrics',
  'lr_scheduler',
];

// TorchTitan, which takes its settings as TOML, as JSON, and as arguments.
registerPrograms({
  name: 'TorchTitan',
  order: 66,
  keys: [TORCHTITAN],
  files: [{ dialect: TORCHTITAN, order: 90, isUsual: true, isToml: true, sections: SECTIONS }],
  scripts: [
    {
      order: 40,
      fits: (script, names) =>
        /torchtitan[./]train/.test(script) || names.some((name) => hasSection(name)) ? TORCHTITAN : null,
    },
  ],
  write: {
    torchtitan: {
      order: 45,
      says: "TorchTitan's TOML",
      originals: [],
      keys: () => [TORCHTITAN.keys],
      packages: () => [TORCHTITAN_PACKAGE],
      data: 'own',
      except: () => TORCHTITAN_EXCEPTIONS,
      start: startByHand,
      notes: torchTitanNotes,
      files: torchTitanFiles,
    },
  },
});

/** Whether an argument's name has a section of TorchTitan: 'training.steps'. */
function hasSection(name: string): boolean {
  const [section = '', key] = name.split('.');
  return key !== undefined && Object.hasOwn(TORCHTITAN.keys, section);
}
