# Other people's clients against kbroker, and its answers beside recorded ones of Apache Kafka. `make compat` runs all that
# need more than Go; CLIENTS=kcat,kgo selects, SOFTWARE=kafka runs them against Apache Kafka, LOGS=dir keeps their output.
SOFTWARE ?= kbroker

.PHONY: compat compat-clients compat-list record

compat: compat-clients ## foreign clients against a broker: CLIENTS=kcat,kgo SOFTWARE=kafka LOGS=dir

compat-clients:
	$(GO) run ./test/compat/matrix -software $(SOFTWARE) $(if $(CLIENTS),-only $(CLIENTS)) $(if $(LOGS),-logs $(LOGS))

compat-list: ## the clients of `make compat`
	$(GO) run ./test/compat/matrix -list
