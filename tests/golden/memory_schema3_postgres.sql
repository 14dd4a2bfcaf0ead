CREATE TABLE meta(name TEXT COLLATE "C" PRIMARY KEY, body TEXT COLLATE "C" NOT NULL);
CREATE TABLE scope(scope_id BIGINT PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE, created_at DOUBLE PRECISION NOT NULL);
CREATE FUNCTION next_scope() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(scope_id), 0) + 1 FROM scope); END $$;
ALTER TABLE scope ALTER COLUMN scope_id SET DEFAULT next_scope();
CREATE TABLE text_blob(hash TEXT COLLATE "C" PRIMARY KEY, body TEXT COLLATE "C" NOT NULL, n_chars BIGINT NOT NULL);
CREATE TABLE embedding(
  emb_id BIGINT PRIMARY KEY,
  model TEXT COLLATE "C" NOT NULL,
  text_hash TEXT COLLATE "C" NOT NULL REFERENCES text_blob(hash),
  dim BIGINT NOT NULL,
  vec vector NOT NULL,
  UNIQUE(model, text_hash),
  CHECK(vector_dims(vec) = dim));
CREATE FUNCTION next_embedding() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(emb_id), 0) + 1 FROM embedding); END $$;
ALTER TABLE embedding ALTER COLUMN emb_id SET DEFAULT next_embedding();
CREATE TABLE recall(
  seq BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  stage TEXT COLLATE "C" NOT NULL,
  query_hash TEXT COLLATE "C" NOT NULL REFERENCES text_blob(hash),
  emb_id BIGINT REFERENCES embedding(emb_id),
  policy TEXT COLLATE "C" NOT NULL,
  params TEXT COLLATE "C" NOT NULL,
  rng_seed BIGINT NOT NULL,
  frozen BOOLEAN NOT NULL,
  is_test BOOLEAN NOT NULL,
  explored BOOLEAN NOT NULL,
  store_seq BIGINT NOT NULL,
  event_seq BIGINT NOT NULL,
  audit_seq BIGINT NOT NULL DEFAULT 0,
  n_scanned BIGINT NOT NULL,
  n_pool BIGINT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL);
CREATE FUNCTION next_recall() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(seq), 0) + 1 FROM recall); END $$;
ALTER TABLE recall ALTER COLUMN seq SET DEFAULT next_recall();
CREATE TABLE memory(
  seq BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  kind TEXT COLLATE "C" NOT NULL,
  polarity TEXT COLLATE "C" NOT NULL CHECK(polarity IN ('success', 'failure', 'mixed', 'neutral')),
  key_hash TEXT COLLATE "C" NOT NULL REFERENCES text_blob(hash),
  body_hash TEXT COLLATE "C" NOT NULL REFERENCES text_blob(hash),
  emb_id BIGINT NOT NULL REFERENCES embedding(emb_id),
  source TEXT COLLATE "C" NOT NULL,
  q_init DOUBLE PRECISION NOT NULL,
  q_given BOOLEAN NOT NULL,
  status TEXT COLLATE "C" NOT NULL DEFAULT 'active'
    CHECK(status IN ('active', 'candidate', 'archived', 'quarantined', 'superseded')),
  superseded_by BIGINT REFERENCES memory(seq) DEFERRABLE INITIALLY DEFERRED,
  content_version BIGINT NOT NULL DEFAULT 1,
  merged BIGINT NOT NULL DEFAULT 0,
  made_in BIGINT REFERENCES recall(seq),
  created_at DOUBLE PRECISION NOT NULL);
CREATE FUNCTION next_memory() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(seq), 0) + 1 FROM memory); END $$;
ALTER TABLE memory ALTER COLUMN seq SET DEFAULT next_memory();
CREATE INDEX memory_body ON memory(scope_id, body_hash);
CREATE TABLE word_count(
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  word TEXT COLLATE "C" NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY(scope_id, word));
CREATE TABLE key_word(
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  word TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL REFERENCES memory(seq),
  PRIMARY KEY(scope_id, word, seq));
CREATE TABLE provenance(
  child BIGINT NOT NULL REFERENCES memory(seq),
  parent BIGINT NOT NULL REFERENCES memory(seq),
  relation TEXT COLLATE "C" NOT NULL CHECK(relation IN ('retrieved', 'merged', 'revised')),
  weight DOUBLE PRECISION NOT NULL DEFAULT 1.0,
  PRIMARY KEY(child, parent, relation),
  CHECK(parent < child));
CREATE INDEX provenance_parent ON provenance(parent);
CREATE TABLE recall_item(
  recall_id BIGINT NOT NULL REFERENCES recall(seq),
  memory_id BIGINT NOT NULL REFERENCES memory(seq),
  rank BIGINT NOT NULL,
  sim DOUBLE PRECISION NOT NULL, q DOUBLE PRECISION NOT NULL, value DOUBLE PRECISION NOT NULL, n BIGINT NOT NULL,
  z_sim DOUBLE PRECISION NOT NULL, z_q DOUBLE PRECISION NOT NULL, bonus DOUBLE PRECISION NOT NULL, score DOUBLE PRECISION NOT NULL,
  in_pool BOOLEAN NOT NULL, selected BOOLEAN NOT NULL, omitted BOOLEAN NOT NULL,
  propensity DOUBLE PRECISION NOT NULL,
  shown BOOLEAN NOT NULL,
  content_version BIGINT NOT NULL,
  PRIMARY KEY(recall_id, memory_id));
CREATE INDEX recall_item_memory ON recall_item(memory_id);
CREATE TABLE outcome(
  outcome_id BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  recall_id BIGINT NOT NULL REFERENCES recall(seq),
  objective TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL CHECK(source IN ('env', 'tests', 'judge', 'human', 'proxy')),
  reward DOUBLE PRECISION,
  valid BOOLEAN NOT NULL,
  idempotency_key TEXT COLLATE "C" NOT NULL,
  action_hash TEXT COLLATE "C" REFERENCES text_blob(hash),
  child BIGINT REFERENCES memory(seq),
  created_at DOUBLE PRECISION NOT NULL,
  CHECK(NOT valid OR reward IS NOT NULL),
  UNIQUE(scope_id, objective, idempotency_key, valid));
CREATE FUNCTION next_outcome() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(outcome_id), 0) + 1 FROM outcome); END $$;
ALTER TABLE outcome ALTER COLUMN outcome_id SET DEFAULT next_outcome();
CREATE UNIQUE INDEX outcome_once ON outcome(recall_id, objective) WHERE valid;
CREATE INDEX outcome_recall ON outcome(recall_id);
CREATE TABLE value(
  memory_id BIGINT NOT NULL REFERENCES memory(seq),
  objective TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  q DOUBLE PRECISION NOT NULL,
  carry DOUBLE PRECISION NOT NULL,
  n BIGINT NOT NULL, sum_r DOUBLE PRECISION NOT NULL, sum_r2 DOUBLE PRECISION NOT NULL,
  w_shown DOUBLE PRECISION NOT NULL, w2_shown DOUBLE PRECISION NOT NULL, wr_shown DOUBLE PRECISION NOT NULL,
  n_omitted BIGINT NOT NULL, w_omitted DOUBLE PRECISION NOT NULL, w2_omitted DOUBLE PRECISION NOT NULL, sum_r_omitted DOUBLE PRECISION NOT NULL,
  n_credit BIGINT NOT NULL,
  updated_seq BIGINT NOT NULL,
  PRIMARY KEY(memory_id, objective, stage));
CREATE TABLE source_value(
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  source TEXT COLLATE "C" NOT NULL, objective TEXT COLLATE "C" NOT NULL, stage TEXT COLLATE "C" NOT NULL,
  n DOUBLE PRECISION NOT NULL, sum_r DOUBLE PRECISION NOT NULL,
  PRIMARY KEY(scope_id, source, objective, stage));
CREATE TABLE value_event(
  seq BIGINT PRIMARY KEY,
  memory_id BIGINT NOT NULL REFERENCES memory(seq),
  objective TEXT COLLATE "C" NOT NULL, stage TEXT COLLATE "C" NOT NULL,
  outcome_id BIGINT NOT NULL REFERENCES outcome(outcome_id),
  recall_id BIGINT NOT NULL REFERENCES recall(seq),
  rule TEXT COLLATE "C" NOT NULL CHECK(rule IN ('shown', 'omitted', 'ancestor')),
  alpha DOUBLE PRECISION NOT NULL,
  weight DOUBLE PRECISION NOT NULL,
  ipw DOUBLE PRECISION NOT NULL,
  decay DOUBLE PRECISION NOT NULL,
  depth BIGINT NOT NULL,
  reward DOUBLE PRECISION NOT NULL, target DOUBLE PRECISION NOT NULL,
  q_before DOUBLE PRECISION NOT NULL, q_after DOUBLE PRECISION NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  UNIQUE(outcome_id, memory_id, objective, stage, rule));
CREATE FUNCTION next_value_event() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(seq), 0) + 1 FROM value_event); END $$;
ALTER TABLE value_event ALTER COLUMN seq SET DEFAULT next_value_event();
CREATE INDEX value_event_memory ON value_event(memory_id);
CREATE TABLE audit(
  seq BIGINT PRIMARY KEY,
  scope_id BIGINT REFERENCES scope(scope_id),
  verb TEXT COLLATE "C" NOT NULL, target TEXT COLLATE "C" NOT NULL, detail TEXT COLLATE "C" NOT NULL, created_at DOUBLE PRECISION NOT NULL);
CREATE FUNCTION next_audit() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(seq), 0) + 1 FROM audit); END $$;
ALTER TABLE audit ALTER COLUMN seq SET DEFAULT next_audit();
CREATE INDEX audit_target ON audit(target);
CREATE TABLE void(
  seq BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL REFERENCES scope(scope_id),
  event_from BIGINT NOT NULL,
  event_to BIGINT NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  undone_at DOUBLE PRECISION,
  CHECK(event_from <= event_to));
CREATE FUNCTION next_void() RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT coalesce(max(seq), 0) + 1 FROM void); END $$;
ALTER TABLE void ALTER COLUMN seq SET DEFAULT next_void();
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'restrict_violation'; END $$;
CREATE TRIGGER embedding_written_once BEFORE UPDATE ON embedding FOR EACH ROW EXECUTE FUNCTION refuse('embeddings are written once');
CREATE TRIGGER text_written_once BEFORE UPDATE ON text_blob FOR EACH ROW EXECUTE FUNCTION refuse('texts are written once');
CREATE TRIGGER value_event_appended_only BEFORE UPDATE ON value_event FOR EACH ROW EXECUTE FUNCTION refuse('value events are appended only');
CREATE TRIGGER value_event_kept BEFORE DELETE ON value_event FOR EACH ROW EXECUTE FUNCTION refuse('value events are kept');
CREATE TRIGGER audit_appended_only BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION refuse('audit rows are appended only');
CREATE TRIGGER memory_kept BEFORE DELETE ON memory FOR EACH ROW EXECUTE FUNCTION refuse('memories are archived, not deleted');
CREATE TRIGGER memory_content_fixed BEFORE UPDATE OF scope_id, kind, polarity, key_hash, body_hash, emb_id, q_init, q_given, source ON memory FOR EACH ROW EXECUTE FUNCTION refuse('what a memory says is written once; supersede it');
CREATE TABLE memory_vector(
  seq BIGINT PRIMARY KEY REFERENCES memory(seq),
  scope_id BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  active BOOLEAN NOT NULL,
  vec vector NOT NULL);
ALTER TABLE memory_vector ALTER COLUMN vec SET STORAGE MAIN;
CREATE INDEX memory_vector_scope ON memory_vector(scope_id);
CREATE TABLE status_change(
  id BIGINT PRIMARY KEY,
  scope_id BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  delta BIGINT NOT NULL);
CREATE FUNCTION memory_written() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO memory_vector SELECT NEW.seq, NEW.scope_id, NEW.kind, NEW.status = 'active', e.vec
    FROM embedding e WHERE e.emb_id = NEW.emb_id;
  RETURN NEW; END $$;
CREATE TRIGGER memory_written AFTER INSERT ON memory FOR EACH ROW EXECUTE FUNCTION memory_written();
CREATE FUNCTION memory_status() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (OLD.status = 'active') <> (NEW.status = 'active') THEN
    UPDATE memory_vector SET active = NEW.status = 'active' WHERE seq = NEW.seq;
    INSERT INTO status_change SELECT coalesce(max(id), 0) + 1, NEW.scope_id, NEW.seq, NEW.kind,
      CASE WHEN NEW.status = 'active' THEN 1 ELSE -1 END FROM status_change;
  END IF;
  RETURN NEW; END $$;
CREATE TRIGGER memory_status AFTER UPDATE OF status ON memory FOR EACH ROW EXECUTE FUNCTION memory_status();
CREATE TABLE evolvent_store(version BIGINT NOT NULL);
INSERT INTO evolvent_store VALUES (3);
