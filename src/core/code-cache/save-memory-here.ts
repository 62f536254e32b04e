import { saveMemory } from './save-memory';

// A thread imports this module before all others.
saveMemory();
