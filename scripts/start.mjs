import { checkNode } from './lib/node-version.mjs';

checkNode();
import('./lib/start.mjs').then(({ main }) => main());
