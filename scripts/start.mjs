import { checkNode } from './lib/node-version.mjs';

checkNode();
void import('./lib/start.mjs').then(({ main }) => main());
