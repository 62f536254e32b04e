import { contractOver } from './contract-suite';

contractOver('shared-memory', 2);
for (const world of [2, 4]) contractOver('zeromq', world);
