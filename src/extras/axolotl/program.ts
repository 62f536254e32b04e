import { registerPrograms } from '../../programs/toolkit';
import { AXOLOTL } from './axolotl';

registerPrograms({
  name: 'Axolotl',
  order: 64,
  keys: [AXOLOTL],
  files: [{ dialect: AXOLOTL, order: 60, isUsual: true }],
  commands: [{ words: ['axolotl', 'train'], dialect: AXOLOTL }],
  scripts: [{ order: 10, fits: (script) => (/axolotl[./]cli[./]train/.test(script) ? AXOLOTL : null) }],
});
