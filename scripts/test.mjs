import { checkNode } from './lib/node-version.mjs';

checkNode();
void import('./lib/test.mjs').then(({ main }) => main());
