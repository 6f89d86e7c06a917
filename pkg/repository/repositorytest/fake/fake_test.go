package fake_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	repositorytest.Run(t, func(_ *testing.T, clock *repositorytest.Clock) repositorytest.Fixture {
		store := fake.New(clock.Now)
		return repositorytest.Fixture{
			Repository: store,
			Insert:     func(_ *testing.T, m entity.Message) { store.Insert(m) },
			Archive:    func(_ *testing.T, id uuid.UUID) { store.Archive(id) },
		}
	})
}
